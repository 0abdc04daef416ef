package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

func TestGusSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: Member(gus.Factory), Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{3, 4, 5, 7}, append(gus.Paths(), gus.MajorityPaths()...))
}

func TestGusSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(gus.Factory), First: 1, Seeds: seedsFor(t) / 2,
		Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.FewRMWs, Members: []int{3, 4, 5, 7}},
	}, append(changePathsFor(t), gus.ChangePaths()...))
}

// forgetfulGus keeps of a key as many writes, and one version, that it does not know to be final.
func forgetfulGus(writes int) Start {
	return Member(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) member.Inner {
		c.Tuning.Writes, c.Tuning.Versions = writes, 1
		return gus.New(c, j, r)
	})
}

// Members that keep next to nothing of writes that they don't know to be final forget them as others forget them on the
// hottest keys.
func TestForgetfulGusSurvives(t *testing.T) {
	t.Parallel()
	all := Report{Paths: map[string]uint64{}}
	for _, writes := range []int{1, 2} {
		forgetful := forgetfulGus(writes)
		for _, n := range []int{3, 4, 5, 7} {
			same := survives(t, Search{
				Start: forgetful, First: 1, Seeds: seedsFor(t) / 20, Options: schedule.Options{Faults: patient(), RMWs: schedule.FewRMWs, Members: []int{n}},
			}, nil)
			// Where members are dead for good, and others have forgotten, a read waits until the dead are replaced.
			changing := Search{
				Start: forgetful, First: 1, Seeds: seedsFor(t) / 40, StopAt: searchSeeds,
				Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.FewRMWs, Members: []int{n}},
			}.Run(t.Context())
			for _, f := range changing.Failures {
				if harm(f.Class) {
					t.Errorf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
				}
			}
			for _, r := range []Report{same, changing} {
				for path, taken := range r.Paths {
					all.Paths[path] += taken
				}
			}
		}
	}
	if missing := all.Missing(gus.ForgetfulPaths()); missing != nil && seedsFor(t) == searchSeeds {
		t.Errorf("paths never taken: %v", missing)
	}
}

func TestMistakesOfGusAreFound(t *testing.T) {
	t.Parallel()
	all := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs}
	three := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs, Members: []int{3}}
	four := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs, Members: []int{4}}
	more := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs, Members: []int{5, 7}}
	crashes := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}, RMWs: schedule.FewRMWs, Members: []int{3}}
	// Nobody stops: what a process had in memory is not why.
	links := schedule.Options{Faults: []faults.Kind{faults.Partition, faults.Loss, faults.Reorder, faults.Duplicate, faults.Slow}, RMWs: schedule.FewRMWs}
	overtaken := schedule.Options{Faults: []faults.Kind{faults.Reorder}, RMWs: schedule.FewRMWs, Members: []int{3}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Partition}, RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	changes := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: schedule.FewRMWs}
	mustFindEach(t, Member(gus.Factory), nil, []hunt{
		{"gus/ack-before-persist", crashes, 300, 500},
		{"gus/adopt-own", overtaken, 440, 2000},
		{"gus/complete-before-persist", crashes, 0, 4000},
		{"gus/count-writer", three, 1370, 4000},
		{"gus/held-is-stale", three, 0, 4000},
		{"gus/adopt-older", three, 1370, 4000},
		{"gus/read-speculative", more, 0, 2000},
		{"gus/read-speculative with four", four, 0, 2000},
		{"gus/keep-stale", all, 0, 500},
		{"gus/keep-stale with four", four, 0, 500},
		{"gus/commit-without-value", all, 0, 500},
		{"gus/commit-without-value with four", four, 0, 500},
		{"gus/store-under-own-tag", links, 0, 500},
		{"gus/drop-early-commit", overtaken, 310, 2000},
		{"gus/forget-votes", more, 1190, 4000},
		{"gus/forget-votes with four", four, 950, 4000},
		{"gus/tag-along", all, 0, 500},
		{"gus/tag-along with four", four, 0, 500},
		{"gus/let-undecided-pass", more, 0, 500},
		{"gus/let-undecided-pass with four", four, 0, 2000},
		{"gus/let-pass-with-three", three, 2700, 4000},
		{"gus/let-pass-below-vote", more, 0, 2000},
		{"gus/share-tags", all, 230, 2000},
		{"gus/tag-without-boot", crashes, 80, 6000},
		{"gus/number-without-boot", crashes, 1460, 4000},
		// ignore-locks: see below. expose-volatile: see TestMembersBreakInvariants. quorum/count-dead-disks and
		// member/keep-incarnation: see TestLostDisksAreFenced.
		{"gus/adopt-as-final", changes, 0, 2000},
		{"gus/resume-with-new-tag", changes, 280, 2000},
		{"member/vote-at-once", wipes, 0, 200},
		{"member/transfer-from-one", wipes, 430, 2000},
		{"quorum/count-one-side", changes, 0, 500},
		{"member/fetch-from-one", changes, 630, 2000},
	})
	// Nothing wrong is read with these two.
	stops := schedule.Options{
		Faults: []faults.Kind{faults.Crash, faults.Partition}, RMWs: schedule.FewRMWs, Members: []int{4, 5, 7},
	}
	program := mutants.Build(t)
	program.Run(t, "gus/never-recover", "gus/never-recover", func(t *testing.T) {
		mustFind(t, drawn(stops), Member(gus.Factory), 0, 500, found(check.Stuck))
	})
	program.Run(t, "gus/wait-for-forgetful", "gus/wait-for-forgetful", func(t *testing.T) {
		mustFind(t, drawn(all), forgetfulGus(2), 0, 200, found(check.Stuck))
	})
}

// What random schedules come to too seldom.
func TestRareMistakesOfGusAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, rare := range []struct {
		mutant string
		draw   func(uint64) schedule.Schedule
		seeds  int
	}{
		{"gus/ignore-locks", directed.TagsPreempted, 500},
		{"gus/last-vote", directed.TagsOutvoted, 2000},
		{"gus/forget-taken", directed.TagsTakenAgain, 500},
		{"gus/hold-refused", directed.VotesThatLose, 100},
		{"gus/vote-into-register", directed.VotesThatLose, 100},
		{"gus/let-pass-what-was-before", directed.OwnWritesPassed, 100},
		{"gus/forget-let-pass", directed.OwnWritesPassed, 200},
		{"gus/forget-held-below", directed.OwnWritesPassed, 200},
		{"gus/let-pass-votes", directed.OwnWritesPassed, 100},
		{"gus/let-pass-ended", directed.OwnWritesPassed, 100},
		{"gus/let-pass-decided-by-others", directed.OwnWritesDecided, 200},
	} {
		program.Run(t, rare.mutant, rare.mutant, func(t *testing.T) {
			mustFind(t, rare.draw, Member(gus.Factory), 0, rare.seeds, nil)
		})
	}
}
