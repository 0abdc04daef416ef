package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
)

// copied are the protocols whose members ask others about their disks.
var copied = []struct {
	name    string
	factory member.Factory
	rmws    int
}{
	{"abd", abd.Factory, FewRMWs},
	{"gryff", gryff.Factory, ManyRMWs},
	{"gus", gus.Factory, FewRMWs},
	{"rmwpaxos", rmwpaxos.Factory, ManyRMWs},
	{"epaxos", epaxos.Factory, ManyRMWs},
	{"raft", raft.Factory, ManyRMWs},
	{"curpraft", curpraft.Factory, ManyRMWs},
}

// TestOldCopiesAreFound has disks go back to what they were, among faults that leave others' in peace: members find it out, and
// nothing is lost.
func TestOldCopiesAreFound(t *testing.T) {
	t.Parallel()
	for _, p := range copied {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			options := Options{Faults: []FaultKind{OldCopy, Rot, Partition, Crash}, RMWs: p.rmws, Members: []int{3, 5}}
			found := map[string]uint64{}
			seeds := seedsFor(t) / 20
			for seed := uint64(1); seed <= uint64(seeds); seed++ {
				if f := Draw(seed, options).Run(Member(p.factory), func(path string) { found[path]++ }).Failure; f != nil {
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

// TestAnOldCopyThatIsTrustedIsFound puts the mistake back that members believe whatever disk they find.
func TestAnOldCopyThatIsTrustedIsFound(t *testing.T) {
	t.Parallel()
	for _, p := range copied {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			options := Options{Faults: []FaultKind{OldCopy, Partition}, RMWs: p.rmws, Members: []int{3}}
			mustFind(t, drawn(options), MemberWith(p.factory, member.Mistakes{TrustOldCopy: true}), 0, 2000, harm)
		})
	}
}
