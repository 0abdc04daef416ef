package abd_test

import (
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", abd.Factory) }

// TestRareMistakes shows, step by step, how those mistakes break the register that random schedules rarely
// reach: each needs several faults in one order.
func TestRareMistakes(t *testing.T) {
	found := mutants.Build(t)
	for _, mutant := range []string{"quorum/count-dead-disks", "abd/number-without-boot", "abd/tag-without-boot"} {
		found.Run(t, mutant, mutant, func(t *testing.T) {
			script.Run(t, "testdata/mistakes/"+path.Base(mutant)+".txt", abd.Factory)
		})
	}
}

// lone is member 1 of n, which talks to nobody, and counts its paths.
func lone(n int, took map[string]int) (member.Inner, *protocol.Journal) {
	c := protocol.Config{
		Self: 1, View: view.View{Cluster: "test", Epoch: 1}, Boot: 1, Retry: time.Second,
		Count: func(path string) { took[path]++ },
	}
	for i := range n {
		id := view.MemberID(i + 1)
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != c.Self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	j := protocol.NewJournal(protocoltest.Disk{})
	return abd.Factory(c, j, quorum.FirstDisks(c.View)), j
}

func TestRMWIsRefusedAsTheTableSays(t *testing.T) {
	row, err := capability.Find("ABD")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := lone(3, map[string]int{})
	p.Submit(protocol.Request{Handle: 7, Operation: register.Operation{Kind: register.RMW, Key: "k"}})
	done := p.Ready().Complete
	if len(done) != 1 || done[0].Handle != 7 || done[0].Result.Status != register.Unsupported {
		t.Fatalf("an rmw completed with %+v", done)
	}
	if want := row.Operation(register.RMW).Refusal; done[0].Result.Message != want {
		t.Errorf("the refusal is %q, the table says %q", done[0].Result.Message, want)
	}
	if p.Pending() != 0 {
		t.Errorf("%d operations are pending after a refusal", p.Pending())
	}
}

func TestExpiredOperationsAreForgotten(t *testing.T) {
	took := map[string]int{}
	p, _ := lone(3, took)
	for i := range 100 {
		p.Submit(protocol.Request{
			Handle: uint64(i), Deadline: protocol.Instant(time.Second + time.Duration(i)),
			Operation: register.Operation{Kind: register.Read, Key: fmt.Sprint(i)},
		})
	}
	p.Tick(protocol.Instant(time.Second + 49))
	done := p.Ready().Complete
	if len(done) != 50 || p.Pending() != 50 {
		t.Fatalf("%d of 100 reads expired and %d are pending, want 50 and 50", len(done), p.Pending())
	}
	for i, c := range done {
		if c.Handle != uint64(i) || c.Result.Status != register.Unavailable || c.Result.Message == "" {
			t.Errorf("the %d-th to expire is %+v", i, c)
		}
	}
	p.Tick(protocol.Instant(time.Minute))
	if p.Ready(); p.Pending() != 0 {
		t.Errorf("%d operations are pending after all deadlines", p.Pending())
	}
	if took["unavailable"] != 100 {
		t.Errorf("counted %d expired reads of 100", took["unavailable"])
	}
}

func TestADamagedRecordStopsTheMember(t *testing.T) {
	for name, step := range map[string]func(member.Inner){
		"own read": func(p member.Inner) {
			p.Submit(protocol.Request{Operation: register.Operation{Kind: register.Read, Key: "k"}})
		},
		"first phase": func(p member.Inner) {
			p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_READ1, Op: 1, Key: []byte("k")})
		},
		"second phase": func(p member.Inner) {
			p.Receive(2, &peerv1.Message{Kind: peerv1.Kind_WRITE2, Op: 1, Key: []byte("k"), Timestamp: 9})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, j := lone(3, map[string]int{})
			j.Put([]byte("rk"), []byte{0xff})
			step(p)
			e := p.Ready()
			if e.Fault == nil {
				t.Fatal("the member goes on")
			}
			if len(e.Send)+len(e.SendAfterPersist)+len(e.Complete)+len(e.CompleteAfterPersist) != 0 {
				t.Errorf("a member that stops still says %+v", e)
			}
		})
	}
}

func TestAdoptKeepsTheLargerTag(t *testing.T) {
	p, _ := lone(1, map[string]int{})
	adopt := func(timestamp uint64, value string) {
		record := peerv1.RegisterRecord{Timestamp: timestamp, Writer: 1, Present: true, Value: []byte(value)}
		encoded, err := record.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		p.Adopt([]byte("rk"), encoded)
	}
	adopt(2, "two")
	adopt(3, "three")
	adopt(1, "one")
	p.Submit(protocol.Request{Operation: register.Operation{Kind: register.Read, Key: "k"}})
	if done := p.Ready().CompleteAfterPersist; len(done) != 1 || string(done[0].Result.Value) != "three" {
		t.Errorf("read %+v, want three", done)
	}
}

func TestPathsAreNamedOnce(t *testing.T) {
	paths := slices.Concat(abd.Paths(), abd.ChangePaths())
	slices.Sort(paths)
	if len(slices.Compact(slices.Clone(paths))) != len(paths) {
		t.Errorf("a path is named twice: %v", paths)
	}
}

// FuzzReceive throws messages at a member with operations in both phases. It must not panic, must answer
// nobody but the sender at once, and must not count a path that Paths does not name.
func FuzzReceive(f *testing.F) {
	seed := func(from uint8, m *peerv1.Message) {
		encoded, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(from, encoded)
	}
	first := uint64(1)<<56 | 1<<40
	for kind := range peerv1.Kind_name { // the order of seeds does not matter
		seed(2,
			&peerv1.Message{
				Kind: peerv1.Kind(kind), Op: first + 1, Key: []byte("k"), Timestamp: 5, Writer: 3, Same: true,
			})
		seed(9,
			&peerv1.Message{
				Kind: peerv1.Kind(kind), Op: first + 2, Key: []byte("k"), Present: true, Value: []byte("v"),
			})
	}
	f.Fuzz(func(t *testing.T, sender uint8, encoded []byte) {
		from := view.MemberID(2 + sender%4) // member.Member hears no others
		m := &peerv1.Message{}
		if m.UnmarshalVT(encoded) != nil {
			return
		}
		took := map[string]int{}
		p, _ := lone(5, took)
		for i, kind := range []register.Kind{register.Read, register.Write, register.Write} {
			p.Submit(protocol.Request{Handle: uint64(i), Operation: register.Operation{Kind: kind, Key: "k"}})
		}
		for _, id := range []view.MemberID{2, 3} { // the third operation is in its second phase
			p.Receive(id, &peerv1.Message{Kind: peerv1.Kind_WRITE1_REPLY, Op: first + 3, Key: []byte("k")})
		}
		p.Ready()
		p.Receive(from, m)
		e := p.Ready()
		if len(e.Complete)+len(e.CompleteAfterPersist) != 0 {
			t.Errorf("one member's message completed %+v", e)
		}
		for _, s := range slices.Concat(e.Send, e.SendAfterPersist) {
			if s.To != from {
				t.Errorf("a message of %d made the member send %v to %d", from, s.Message, s.To)
			}
		}
		for path := range took { // only compared
			if !slices.Contains(abd.Paths(), path) {
				t.Errorf("path %q is not in Paths()", path)
			}
		}
	})
}
