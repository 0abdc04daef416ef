package simulator

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// smallCURPRaft makes members that were cut off for a while fetch each other's state, and witnesses reject for want of
// room.
var smallCURPRaft = protocol.Tuning{LogEntries: shortLog.LogEntries, LogBytes: shortLog.LogBytes, Slots: 64}

func shortCURPRaft(
	config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations,
) member.Inner {
	config.Tuning.LogEntries = cmp.Or(config.Tuning.LogEntries, smallCURPRaft.LogEntries)
	config.Tuning.LogBytes = cmp.Or(config.Tuning.LogBytes, smallCURPRaft.LogBytes)
	config.Tuning.Slots = cmp.Or(config.Tuning.Slots, smallCURPRaft.Slots)
	return curpraft.Factory(config, journal, known)
}

// The protocol runs on Raft, which has its own tests: half as many schedules show what it adds.
func TestCURPRaftSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(shortCURPRaft), First: 1, Seeds: seedsFor(t) / 2,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, pathsFor(t, curpraft.Paths()))
}

// Members that suspect a leader long before it could be heard.
func TestCURPRaftSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(shortCURPRaft), First: 1, Seeds: seedsFor(t) / 8,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5, 7}, Impatient: true},
	}, nil)
}

func TestCURPRaftSurvivesChanges(t *testing.T) {
	t.Parallel()
	paths := slices.DeleteFunc(changePathsFor(t), func(path string) bool { return strings.Contains(path, "from-one") })
	survives(t, Search{
		Start: Member(shortCURPRaft), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, pathsFor(t, append(paths, raft.ChangePaths()...)))
}

// Leaders that are lost with commands that only witnesses have.
func TestCURPRaftSurvivesLostLeaders(t *testing.T) {
	t.Parallel()
	replayed := 0
	seeds := seedsFor(t) / 8
	for seed := range uint64(seeds) {
		o := Run(lostLeaders(seed+1), Member(shortCURPRaft), func(path string) {
			if path == "curp.replayed" {
				replayed++
			}
		})
		if o.Failure != nil {
			t.Errorf("%v\n%s", o.Failure, Explain(o.Failure))
		}
	}
	if replayed < seeds/8 {
		t.Errorf("%d leaders replayed something: this proves little", replayed)
	}
}

// pathsFor are the paths that schedules must lead to; few schedules miss some.
func pathsFor(t *testing.T, paths []string) []string {
	t.Helper()
	if seedsFor(t) < searchSeeds {
		return nil
	}
	return paths
}

// Mistakes of members and of changes are Raft's.
func TestMistakesOfCURPRaftAreFound(t *testing.T) {
	t.Parallel()
	all := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Partition, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	found := mutants.Build(t)
	for _, c := range []struct {
		mutant string
		after  uint64
		seeds  int
	}{
		{"curpraft/quorum-of-witnesses", 0, 500},
		{"curpraft/more-than-threshold", 250, 1000},
		{"curpraft/any-term", 250, 2000},
		{"curpraft/read-unsynced", 0, 200},
	} {
		found.Run(t, c.mutant, c.mutant, func(t *testing.T) {
			mustFind(t, drawn(all), Member(shortCURPRaft), c.after, c.seeds, harm)
		})
	}
	mustFindEach(t, Member(shortCURPRaft), byClass(harm), []hunt{{"member/vote-at-once", wipes, 0, 500}})
}

// The other mutants are found where a leader is lost that few have heard.
func TestRareMistakesOfCURPRaftAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, c := range []struct {
		mutant string
		draw   func(uint64) schedule.Schedule
		after  uint64
	}{
		{"curpraft/drop-early", lostLeaders, 60},
		{"curpraft/serve-early", directed.LeadersHeardByOne, 0},
		{"curpraft/heed-acks", directed.LeadersHeardByOne, 0},
		{"curpraft/ack-before-persist", directed.LeadersHardlyHeard, 1250},
		{"curpraft/update-unsynced", directed.LeadersHardlyHeard, 390},
	} {
		program.Run(t, c.mutant, c.mutant, func(t *testing.T) {
			mustFind(t, c.draw, Member(shortCURPRaft), c.after, 4000, harm)
		})
	}
	mutant := "curpraft/keep-accepting" // clients come to see it too seldom
	program.Run(t, mutant, mutant, func(t *testing.T) {
		mustFind(t, lostLeaders, Member(shortCURPRaft), 0, 500, found(check.Breach))
	})
}
