package simulator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/register"
)

// TestOldCopiesOfCURPAreFound has the disks of masters and backups go back to what they were: they find it out, are replaced, and
// nothing is lost.
func TestOldCopiesOfCURPAreFound(t *testing.T) {
	t.Parallel()
	found := map[string]uint64{}
	seeds := seedsFor(t) / 8
	options := curpOptions(curp.Mistakes{}, OldCopy, Rot)
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		if f := Draw(seed, options).Run(nil, func(path string) { found[path]++ }).Failure; f != nil {
			t.Fatalf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
		}
	}
	t.Logf("%d schedules, %d disks put back, %d found, %d rotten, %d trusted by few, %d members replaced", seeds, found["old-copy"],
		found["old-copy.found"], found["rot"], found["member.trusted-by-few"], found["curp.member-lost"])
	if seeds > 50 && (found["old-copy.found"] != found["old-copy"] || found["old-copy"] < uint64(seeds)/50 || found["rot"] == 0) {
		t.Errorf("they hardly happen")
	}
}

// TestAnOldCopyThatIsTrustedIsFoundInCURP puts the mistake back that masters and backups believe whatever disk they find.
func TestAnOldCopyThatIsTrustedIsFoundInCURP(t *testing.T) {
	t.Parallel()
	options := curpOptions(curp.Mistakes{TrustOldCopy: true}, OldCopy)
	mustFind(t, drawn(options), nil, 60, 1000, found(""))
}

// TestOldCopiesOfWitnessesAreFound has masters lost with many operations that only witnesses have, after the disk of one of these has
// gone back to what it was: it finds that out, is replaced, and nothing is lost.
func TestOldCopiesOfWitnessesAreFound(t *testing.T) {
	t.Parallel()
	found := map[string]uint64{}
	seeds := seedsFor(t) / 24
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		if f := drawWitnessCopy(curp.Mistakes{})(seed).Run(nil, func(path string) { found[path]++ }).Failure; f != nil {
			t.Fatalf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
		}
	}
	t.Logf("%d schedules, %d disks of witnesses put back, %d found, %d answers in doubt", seeds, found["old-copy.witness"],
		found["old-copy.witness-found"], found["witness.doubted"])
	if seeds > 50 && (found["old-copy.witness-found"] < found["old-copy.witness"]*3/4 || found["old-copy.witness"] < uint64(seeds)/10) {
		t.Errorf("they hardly happen")
	}
}

// TestAnOldCopyOfAWitnessThatIsTrustedIsFound puts the mistake back that members vouch for whatever disk a witness finds.
func TestAnOldCopyOfAWitnessThatIsTrustedIsFound(t *testing.T) {
	t.Parallel()
	mustFind(t, drawWitnessCopy(curp.Mistakes{TrustOldWitness: true}), nil, 60, 1000, found(""))
}

// drawWitnessCopy is drawBurst with two witnesses, of which the disk of one goes back shortly before the first crash. Until then each
// update has a key of its own, mostly, and nobody reads, so that there is much that is not synced.
func drawWitnessCopy(wrong curp.Mistakes) func(seed uint64) Schedule {
	return func(seed uint64) Schedule {
		s := drawBurst(seed, wrong)
		for again := uint64(1); len(s.env.network.Sites) != 5; again++ {
			s = drawBurst(seed+again<<32, wrong)
		}
		s.Seed = seed
		s.env.doubtful = true
		s.env.parted.spares += 4
		s.env.parted.slander = 0 // the other witness has to stay
		crash, retry := s.Faults[0].At, s.env.retry
		s.env.parted.options.SyncDelay = 20 * retry
		for c := range s.Clients {
			plan := &s.Clients[c]
			plan.Operations = slices.DeleteFunc(plan.Operations, func(p Planned) bool {
				return p.At < crash && p.Operation.Kind == register.Read
			})
			for i := range plan.Operations {
				plan.Operations[i].Operation.Key += fmt.Sprint("-", i%8)
			}
		}
		from := 2*retry + time.Duration(seed%4)*retry/2
		s.Faults = append(s.Faults, Fault{Kind: witnessCopy, Node: int(seed/4) % 5, At: from, Size: crash - from - retry/8, For: retry / 16})
		return s
	}
}
