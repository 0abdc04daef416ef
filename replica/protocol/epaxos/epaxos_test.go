package epaxos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

// cluster is n members without a world: batches are durable at once, and messages wait to be delivered.
type cluster struct {
	members  []*Protocol
	journals []*protocol.Journal
	disks    []protocoltest.Disk
	packets  []packet
	answers  map[uint64]register.Result
}

type packet struct {
	from, to view.MemberID
	message  *peerv1.Message
}

func newCluster(n int) *cluster {
	c := &cluster{answers: map[uint64]register.Result{}}
	v := view.View{Cluster: "test", Epoch: 1}
	for i := range n {
		v.Members = append(v.Members, view.Member{ID: view.MemberID(i + 1)})
	}
	for i := range n {
		config := protocol.Config{
			Self: view.MemberID(i + 1), View: v, Boot: 1, Functions: register.NewRegistry(),
			Limits: register.DefaultLimits(), Retry: time.Second, Suspect: time.Minute,
		}
		for k := 1; k < n; k++ {
			config.Nearest = append(config.Nearest, v.Members[(i+k)%n].ID)
		}
		c.disks = append(c.disks, protocoltest.Disk{})
		c.journals = append(c.journals, protocol.NewJournal(c.disks[i]))
		c.members = append(c.members, Factory(config, c.journals[i], quorum.FirstDisks(v)).(*Protocol))
		c.members[i].Tick(1)
	}
	return c
}

func (c *cluster) submit(i int, handle uint64, op register.Operation) {
	c.members[i].Submit(protocol.Request{Handle: handle, Operation: op})
	c.ready(i)
}

func (c *cluster) ready(i int) {
	for _, m := range c.keep(i) {
		c.packets = append(c.packets, packet{view.MemberID(i + 1), m.To, m.Message})
	}
}

// keep does what a member's step asks of the world, but for the messages, which it returns.
func (c *cluster) keep(i int) []protocol.Envelope {
	e := c.members[i].Ready()
	c.disks[i].Write(e.Persist)
	if e.Persist.Sequence != 0 {
		c.journals[i].Persisted(e.Persist.Sequence)
	}
	for _, done := range slices.Concat(e.Complete, e.CompleteAfterPersist) {
		c.answers[done.Handle] = done.Result
	}
	return slices.Concat(e.Send, e.SendAfterPersist)
}

// deliver delivers what is under way and wanted, and what follows from it.
func (c *cluster) deliver(wanted func(packet) bool) {
	for {
		at := slices.IndexFunc(c.packets, wanted)
		if at < 0 {
			return
		}
		p := c.packets[at]
		c.packets = slices.Delete(c.packets, at, at+1)
		c.members[p.to-1].Receive(p.from, p.message)
		c.ready(int(p.to - 1))
	}
}

func everything(packet) bool { return true }

// A write with an id that is older than what the key remembers may be a duplicate, and is not executed: so nobody may
// be told that it took effect before the execution says so.
func TestANamedWriteWaitsForItsExecution(t *testing.T) {
	t.Run("correct", func(t *testing.T) { namedWriteToldEarly(t, "") })
	mutants.Build(t).Run(t, "mutant", "instance/answer-named", func(t *testing.T) { namedWriteToldEarly(t, "ok") })
}

// namedWriteToldEarly checks what a client is told on commit of a write that execution refuses.
func namedWriteToldEarly(t *testing.T, want string) {
	t.Helper()
	three := newCluster(3)
	state, err := (&peerv1.KeyState{
		Count: 1, Horizon: 100, HorizonSession: 1,
		Executed: []*peerv1.Executed{
			{Id: &peerv1.InstanceID{Writer: uint64(register.NewWriter(1, 1, 0)), Number: 1}},
		},
	}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range three.members {
		m.Adopt([]byte("sk"), state)
	}
	// 3 hears of a write of 2, and the write of 1 depends on it: 1 asks 2. The commit of 2's does not come.
	three.submit(1, 1, register.Operation{Kind: register.Write, Key: "k", Value: register.Value("other")})
	three.deliver(func(p packet) bool { return p.message.Kind == peerv1.Kind_PRE_ACCEPT })
	three.submit(0, 2, register.Operation{
		Kind: register.Write, Key: "k", Value: register.Value("late"),
		ID: register.ID{Session: 7, Number: 1, FirstIncomplete: 1, IssuedAt: 50},
	})
	three.deliver(func(p packet) bool { return p.to != 2 || p.from == 1 })
	early := ""
	if r, told := three.answers[2]; told {
		early = r.Status.String()
	}
	if early != want {
		t.Errorf("told %q on commit, want %q", early, want)
	}
	three.deliver(everything)
	three.submit(2, 3, register.Operation{Kind: register.Read, Key: "k"})
	three.deliver(everything)
	if got := three.answers[3]; got.Status != register.OK || string(got.Value) != "other" {
		t.Errorf("read %v %q, want the write that was not refused", got.Status, got.Value)
	}
	if got := three.answers[2].Status; want == "" && got != register.Unknown {
		t.Errorf("the write that execution refused is %v, want unknown", got)
	}
}

// Whatever is done to a key, and in whatever order messages come, what is left is its state, with a name for each lane,
// beside free slots of instances.
func TestNothingIsLeftButTheState(t *testing.T) {
	const keys = 3
	for seed := range uint64(6) {
		draw := rand.New(rand.NewPCG(seed, 1))
		n := 3 + 2*draw.IntN(2)
		c := newCluster(n)
		handle := uint64(0)
		for range 60 {
			for range draw.IntN(20) { // more than lanes
				handle++
				op := register.Operation{Kind: register.Kind(1 + draw.IntN(3)), Key: fmt.Sprint(draw.IntN(keys))}
				switch op.Kind {
				case register.Write:
					op.Value = register.Value(fmt.Sprint(handle))
				case register.RMW:
					op.Call = register.Call{
						Function: register.GetAndSet, Args: [][]byte{[]byte("x")}, MaxValueBytes: 100,
					}
				}
				c.submit(draw.IntN(n), handle, op)
			}
			draw.Shuffle(len(c.packets), func(i, j int) { c.packets[i], c.packets[j] = c.packets[j], c.packets[i] })
			left := draw.IntN(50)
			c.deliver(func(packet) bool { left--; return left >= 0 })
		}
		c.deliver(everything)
		if len(c.answers) != int(handle) {
			t.Errorf("seed %d: %d of %d operations ended", seed, len(c.answers), handle)
		}
		for i, m := range c.members {
			if m.Pending() != 0 {
				t.Errorf("seed %d: member %d has %d instances", seed, i+1, m.Pending())
			}
			for key, raw := range c.disks[i] { // order is irrelevant: each is checked
				if key[0] == 'i' {
					if of := unexecuted(t, c.disks[i], key); of != 0 {
						t.Errorf("seed %d: member %d has an instance of member %d", seed, i+1, of)
					}
					continue
				}
				state := &peerv1.KeyState{}
				if err := state.UnmarshalVT(raw); err != nil {
					t.Fatal(err)
				}
				if len(state.Executed) > n*lanes || len(raw) > 8<<10 {
					t.Errorf("seed %d: the state of %q names %d lanes in %d bytes", seed, key,
						len(state.Executed), len(raw))
				}
			}
		}
	}
}
