package simulator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// curpOptions are schedules of CURP, with all kinds that are faults unless some are given.
func curpOptions(kinds ...faults.Kind) schedule.Options {
	if kinds == nil {
		kinds = plain(faults.CURPKinds())
	}
	return schedule.Options{Faults: kinds, RMWs: schedule.ManyRMWs, Partitioned: curp.Definition.Partitioned}
}

// curpPaths are those that as many schedules lead to as seedsFor says. What becomes of each partition when a quorum
// was lost is asked of TestCURPSurvivesLostQuorums, which loses one in every schedule.
func curpPaths(t *testing.T) []string {
	t.Helper()
	paths := slices.Concat(
		curp.Paths(), curp.ChangePaths(), partitionPaths(), replacementPaths(), movePaths(), []string{"curp.quorum-lost", "curp.rescued"},
	)
	return slices.DeleteFunc(paths, func(path string) bool {
		return seedsFor(t) < searchSeeds && slices.Contains([]string{
			"curp.torn", "change.shrink", "change.rebuilt", "curp.moved.meanwhile", "curp.moved-back", "curp.quorum-lost", "curp.rescued",
		}, path)
	})
}

func TestCURPSurvives(t *testing.T) {
	t.Parallel()
	options := curpOptions(faults.CURPKinds()...)
	options.Stale = schedule.SomeStale
	survives(t, Search{Options: options, First: 1, Seeds: seedsFor(t)}, curpPaths(t))
}

// Masters that are lost with much that is not synced.
func TestCURPSurvivesBursts(t *testing.T) {
	t.Parallel()
	failovers := 0
	for seed := range uint64(seedsFor(t) / 4) {
		s := directed.LostMasters(seed + 1)
		s.Environment.Doubtful = seed%2 == 0 // witnesses that restart have to be vouched for
		s.DrawStale(schedule.SomeStale)
		o := Run(s, nil, func(path string) {
			if path == "curp.failover" {
				failovers++
			}
		})
		if o.Failure != nil {
			t.Errorf("%v\n%s", o.Failure, Explain(o.Failure))
		}
	}
	enough := seedsFor(t) / 8
	if seedsFor(t) < searchSeeds { // two of three schedules have one: what a few have of them says nothing
		enough = 1
	}
	if failovers < enough {
		t.Errorf("%d masters were replaced: this proves little", failovers)
	}
}

func TestCURPSurvivesFormerMasters(t *testing.T) {
	t.Parallel()
	mustNotFind(t, directed.MastersBack, nil, seedsFor(t)/4)
}

// curpHunt is a mutant, by its name and, after a space, what tells two hunts apart, and the schedules of CURP in which
// it is looked for.
type curpHunt struct {
	mutant string
	draw   func(seed uint64) schedule.Schedule // nil: any
	after  uint64
	seeds  int
	class  check.Class // empty: what clients notice
}

// mustFindInCURP is mustFind for each of some mutants, in a process of its own.
func mustFindInCURP(t *testing.T, hunts []curpHunt) {
	t.Helper()
	program := mutants.Build(t)
	for _, h := range hunts {
		mutant, _, _ := strings.Cut(h.mutant, " ")
		program.Run(t, h.mutant, mutant, func(t *testing.T) {
			options := curpOptions()
			if h.class == check.Stale {
				options.Stale = 1000
			}
			draw := drawn(options)
			if h.draw != nil {
				draw = func(seed uint64) schedule.Schedule {
					s := h.draw(seed)
					s.DrawStale(options.Stale)
					return s
				}
			}
			mustFind(t, draw, nil, h.after, h.seeds, found(h.class))
		})
	}
}

// staleWithoutBackups has half of the reads of masters without backups be stale.
func staleWithoutBackups(seed uint64) schedule.Schedule {
	s := directed.NoBackups(seed)
	s.DrawStale(500)
	return s
}

// The protocol's scripts show each step by step. Where clients come to see it too seldom, what members say counts.
func TestMistakesOfCURPAreFound(t *testing.T) {
	t.Parallel()
	mustFindInCURP(t, []curpHunt{
		{"curp/quorum-of-witnesses", directed.LostMasters, 60, 500, ""},
		{"curp/quorum-of-backups", nil, 0, 30, check.Breach},
		{"curp/answer-duplicate-synced", nil, 0, 300, ""},
		{"curp/read-unsynced", directed.LostMasters, 0, 300, ""},
		{"curp/update-unsynced", directed.LostMasters, 1140, 1500, ""},
		{"store/honour-acks", directed.LostMasters, 90, 500, ""},
		{"store/forget-watermark", nil, 20, 300, ""},
		{"store/forget-duplicates", nil, 0, 100, ""},
		{"curp/keep-suffix", nil, 0, 50, check.Breach},
		{"curp/drop-pending", nil, 0, 300, ""},
		// It recovers what is not frozen, and nobody can ask again.
		{"curp/any-witness-life", nil, 0, 200, check.Stuck},
		{"curp/skip-replay", directed.LostMasters, 0, 200, ""},
		{"curp/serve-before-synced", nil, 80, 500, ""},
		{"curp/ignore-leases", directed.LostMasters, 200, 500, ""},
		{"curp/forget-promise", directed.LeasesCutOff, 0, 100, ""},
		{"curp/read-without-lease", directed.LostMasters, 0, 200, ""},
		{"curp/local-without-lease", directed.LostMasters, 610, 1000, ""},
		{"curp/any-process", directed.LeasesOfFormerProcesses, 0, 200, check.Breach},
		{"curp/drop-by-hash", directed.LostMasters, 0, 500, ""},
		{"curp/new-id", nil, 0, 100, ""},
		{"curp/answer-before-persist", nil, 0, 30, check.Breach},
		{"curp/sync-before-persist", directed.LostMasters, 0, 30, check.Breach},
		{"curp/settle-unserved", nil, 0, 30, check.Breach},
		{"curp/gc-before-sync", directed.LostMasters, 0, 200, ""},
		{"curp/serve-uncommitted", nil, 50, 500, check.Breach},
		{"curp/follow-at-once", directed.MastersBack, 60, 500, check.Stuck}, // nobody has what is to be recovered
		{"curp/stale-unsynced", directed.LostMasters, 60, 500, check.Stale},
		{"curp/stale-unapplied", directed.LostMasters, 0, 500, check.Stale},
		{"curp/read-unapplied", nil, 0, 500, ""},
		{"store/trim-unapplied", nil, 0, 300, ""},
		{"store/unmake-any", nil, 0, 300, ""},
		{"curp/stale-without-lease", directed.LostMasters, 0, 500, check.Stale},
		{"curp/stale-syncs", directed.LostMasters, 690, 1000, check.Stale},
		{"curp/ignore-term", directed.LostMasters, 600, 500, ""},
		{"curp/backup-first", directed.BackupReads, 0, 500, ""},
		{"curp/no-guard", directed.BackupReads, 0, 500, ""},
		{"curp/restart-without-replay", directed.NoBackups, 0, 200, ""},
		{"curp/stale-alone", staleWithoutBackups, 0, 300, check.Breach},
		{"curp/serve-after-loss", directed.EmptyDisks, 0, 200, ""},
		{"curp/count-learner", directed.CopiesInPages, 0, 200, ""},
		{"curp/believe-late-copy", directed.LateQuestions, 200, 300, check.Unbounded},
		{"store/expire-in-replay", directed.SessionsForgotten, 0, 200, ""},
		{"store/forget-horizon", drawn(curpOptions(faults.CURPKinds()...)), 0, 300, ""},
		{"curp/replay-recovered", directed.FalseAlarms, 0, 200, check.Stuck},
		{"curp/any-view", directed.ViewsToldToFew, 300, 500, ""},
		{"curp/keep-delegations", directed.ReplacedUnderLeases, 0, 200, ""},
		{"curp/any-master", directed.LostQuorums, 200, 500, ""},
		{"curp/lease-of-first", directed.BackupsOnBothSides, 0, 200, ""},
		{"curp/lease-behind-disks", directed.LeasesOnSlowDisks, 0, 200, check.Stuck},
		{"store/durable-unsaved", nil, 0, 300, check.Breach},
		{"curp/lease-from-answer", directed.LeasesHeardLate, 0, 200, ""},
		{"cache/follow-any", directed.LostMasters, 0, 500, ""},
		{"cache/any-order", directed.LostMasters, 400, 500, ""},
		{"cache/drop-all", directed.LostMasters, 360, 500, ""},
		{"curp/follow-incomplete", directed.UpdatesFollowed, 1600, 500, ""},
		{"curp/follow-any", directed.LostMasters, 640, 500, ""},
		{"curp/replay-backwards", directed.LostMasters, 360, 500, ""},
		{"core/answer-held-at-once", directed.WitnessesAskedTwice, 0, 200, ""},
		{"core/freeze-volatile", directed.WitnessesRestarted, 0, 200, ""},
	})
}

func TestMutantsOfItsManagerAreFound(t *testing.T) {
	t.Parallel()
	mustFindInCURP(t, []curpHunt{
		// Terms fence what it told: nobody decides any more.
		{"members/tell-partitions-first", nil, 0, 500, check.Stuck},
		{"members/promote-stranger", nil, 0, 30, check.Breach},
		{"membership/end-lives-early", nil, 0, 500, check.Stuck}, // what is gone is missed, not made up
		{"members/suspect-alone", nil, 0, 500, check.Broken},
		{"membership/forget-formers", nil, 0, 500, ""},
		{"membership/recover-last-only", nil, 50, 500, ""},
		{"membership/keep-all-backups", nil, 60, 500, check.Breach},
		{"membership/pair-dedicated", directed.LostQuorums, 170, 1000, check.Broken},
	})
}

// A master that never learns that its backups have all that was to be recovered asks them now and then, and not with
// each answer: here, where it took part in terms that were forgotten, two backups' answers once became four questions,
// then eight.
func TestQuestionsDoNotMultiply(t *testing.T) {
	t.Parallel()
	mutants.Build(t).Run(t, "it", "curp/serve-uncommitted", func(t *testing.T) {
		if o := Run(schedule.Draw(1204, curpOptions()), nil, nil); o.Events >= eventLimit {
			t.Errorf("%d events: %v", o.Events, o.Failure)
		}
	})
}

// What leases rest on, and nothing else does: clocks that keep to their bound.
func TestClocksBeyondTheBoundAreFound(t *testing.T) {
	t.Parallel()
	fast := func(seed uint64) schedule.Schedule {
		s := directed.LostMasters(seed)
		for at := range 10 {
			slow := faults.Fault{Kind: faults.Skew, Node: at % 2, At: s.Settle * time.Duration(at) / 20, Drift: []int{-900_000, 2_000_000}[at%2]}
			s.Faults = append(s.Faults, slow)
		}
		return s
	}
	mustFind(t, fast, nil, 80, 1000, found(""))
}

func TestCURPSurvivesSuspension(t *testing.T) {
	t.Parallel()
	mustNotFind(t, directed.SuspendedMasters, nil, seedsFor(t)/10)
}

// The machine of a master is suspended for longer than its leases last, and its clock stands still meanwhile, as the
// monotonic clock of most systems does.
func TestClocksThatStandStillAreFound(t *testing.T) {
	t.Parallel()
	standing := func(seed uint64) schedule.Schedule {
		s := directed.SuspendedMasters(seed)
		s.Environment.ClockStops = true
		return s
	}
	mustFind(t, standing, nil, 30, 1000, found(""))
}
