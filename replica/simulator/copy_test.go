package simulator

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// copied are the protocols whose members ask others about their disks.
func copied() (all []catalog.Entry) {
	for _, e := range catalog.All() {
		if e.Partitioned == nil {
			all = append(all, e)
		}
	}
	return all
}

// TestOldCopiesAreFound has disks go back to what they were, among faults that leave others' in peace: members find it
// out, and nothing is lost.
func TestOldCopiesAreFound(t *testing.T) {
	t.Parallel()
	for _, p := range copied() {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			options := optionsFor(p, []faults.Kind{faults.OldCopy, faults.Rot, faults.Partition, faults.Crash}, 3, 5)
			found := map[string]uint64{}
			seeds := seedsFor(t) / 20
			for seed := uint64(1); seed <= uint64(seeds); seed++ {
				if f := Run(schedule.Draw(seed, options), Member(p.Factory), func(path string) { found[path]++ }).Failure; f != nil {
					t.Fatalf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
				}
			}
			t.Logf("%d schedules, %d disks put back, %d found, %d rotten, %d trusted by few", seeds, found["old-copy"], found["old-copy.found"], found["rot"], found["member.trusted-by-few"])
			if seeds > 50 && (found["old-copy.found"] != found["old-copy"] || found["old-copy"] < uint64(seeds)/20 || found["rot"] == 0) {
				t.Errorf("they hardly happen")
			}
		})
	}
}

// A disk that is lost before it was adopted, and the next one, which gets its number: this one is whole.
func TestADiskThatFollowsALostOneIsNoOldCopy(t *testing.T) {
	t.Parallel()
	options := sessions(sameMembers())
	options.Members, options.Losses = []int{5}, 1
	const seed = 64
	t.Run("correct", func(t *testing.T) {
		if f := Run(schedule.Draw(seed, options), Member(gryff.FactoryRSC), nil).Failure; f != nil {
			t.Errorf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
		}
	})
	mutants.Build(t).Run(t, "mutant", "member/stamp-early", func(t *testing.T) {
		mustFail(t, drawn(options), Member(gryff.FactoryRSC), seed-1, 1, func(f *Failure) bool {
			return f.Class == check.Broken && strings.Contains(f.Reason, "older copy, and it is whole")
		})
	})
}

// Members that believe whatever disk they find are found with each protocol.
func TestAnOldCopyThatIsTrustedIsFound(t *testing.T) {
	t.Parallel()
	for _, p := range copied() {
		options := optionsFor(p, []faults.Kind{faults.OldCopy, faults.Partition}, 3)
		mustFindEach(t, Member(p.Factory), byClass(harm), []hunt{{"member/trust-old-copy of " + p.Name(), options, 0, 2000}})
	}
}
