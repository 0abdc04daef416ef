package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/simulator/schedule"
)

// TestOldCopiesOfCURPAreFound has the disks of masters and backups go back to what they were: they find it out, are
// replaced, and nothing is lost.
func TestOldCopiesOfCURPAreFound(t *testing.T) {
	t.Parallel()
	found := map[string]uint64{}
	seeds := seedsFor(t) / 8
	options := curpOptions(faults.OldCopy, faults.Rot)
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		if f := Run(schedule.Draw(seed, options), nil, func(path string) { found[path]++ }).Failure; f != nil {
			t.Fatalf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
		}
	}
	t.Logf("%d schedules, %d disks put back, %d found, %d of witnesses, %d found, %d volumes of both; %d rotten, %d trusted by few, %d members replaced",
		seeds, found["old-copy"], found["old-copy.found"], found["old-copy.witness"], found["old-copy.witness-found"], found["old-copy.volume"],
		found["rot"], found["member.trusted-by-few"], found["curp.member-lost"])
	if seeds > 50 && (found["old-copy.found"] != found["old-copy"] || found["old-copy"] < uint64(seeds)/50 || found["rot"] == 0 ||
		found["old-copy.witness"] == 0 || found["old-copy.volume"] == 0) {
		t.Errorf("they hardly happen")
	}
}

// TestOldCopiesOfWitnessesAreFound has masters lost with many operations that only witnesses have, after the disk of
// one of these has gone back to what it was, alone or with that of the member beside it: it finds that out, is
// replaced, and nothing is lost.
func TestOldCopiesOfWitnessesAreFound(t *testing.T) {
	t.Parallel()
	for _, kind := range []faults.Kind{faults.WitnessCopy, faults.VolumeCopy} {
		found := map[string]uint64{}
		seeds := seedsFor(t) / 48
		for seed := uint64(1); seed <= uint64(seeds); seed++ {
			if f := Run(directed.OldWitnesses(seed, kind), nil, func(path string) { found[path]++ }).Failure; f != nil {
				t.Fatalf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
			}
		}
		t.Logf("%s: %d schedules, %d disks of witnesses put back, %d found, %d of members, %d found, %d answers in doubt", kind, seeds,
			found["old-copy.witness"], found["old-copy.witness-found"], found["old-copy"], found["old-copy.found"], found["witness.doubted"])
		least := found["old-copy.witness"] * 3 / 4
		if kind == faults.VolumeCopy {
			least /= 4 // the others go with their members, which find out first
		}
		if seeds > 25 && (found["old-copy.witness-found"] < least || found["old-copy.witness"] < uint64(seeds)/10 || found["old-copy.found"] != found["old-copy"]) {
			t.Errorf("%s: they hardly happen", kind)
		}
	}
}

// TestAnOldCopyThatIsTrustedIsFoundInCURP has masters and backups believe whatever disk they find, alone or on a volume
// that the witness beside them shares, and has members vouch for whatever disk a witness finds.
func TestAnOldCopyThatIsTrustedIsFoundInCURP(t *testing.T) {
	t.Parallel()
	mustFindInCURP(t, []curpHunt{
		{"curp/trust-old-copy alone", oldCopies(faults.OldCopy), 0, 1000, ""},
		{"curp/trust-old-copy on a volume", oldCopies(faults.VolumeCopy), 0, 1000, ""},
		{"curp/trust-old-witness alone", believing(oldWitnesses(faults.WitnessCopy)), 60, 1000, ""},
		{"curp/trust-old-witness on a volume", believing(oldWitnesses(faults.VolumeCopy)), 1060, 1000, ""},
	})
}

// believing has clients notice that a witness is believed which must not be: nobody else does.
func believing(draw func(seed uint64) schedule.Schedule) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule {
		s := draw(seed)
		s.Environment.Partitioned.Believing = true
		return s
	}
}
