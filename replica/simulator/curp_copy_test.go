package simulator

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/curp"
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

// TestAnOldCopyOfAWitnessIsBelieved shows what is not mended: a witness does not know that its disk is an older copy, nobody tells
// it, and a master recovers from what it has.
func TestAnOldCopyOfAWitnessIsBelieved(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) Schedule {
		s := drawBurst(seed, curp.Mistakes{})
		crash, retry := s.Faults[0].At, s.env.retry
		age, site := time.Duration(1+seed%4)*retry, int(seed/4)%len(s.env.network.Sites)
		s.Faults = append(s.Faults, Fault{Kind: witnessCopy, Node: site, At: crash - age, Size: age - retry/8, For: retry / 16})
		return s
	}
	mustFind(t, draw, nil, 130, 1000, found(""))
}
