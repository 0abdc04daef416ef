package bounds_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// three are members whose messages arrive at once, and whose batches are durable at once.
type three struct {
	t       *testing.T
	members [3]*member.Member
	logs    [3]*protocol.Journal
	disks   [3]protocoltest.Disk
	ended   map[uint64]register.Result
	handle  uint64
	now     protocol.Instant
}

func start(t *testing.T, factory member.Factory) *three {
	c := &three{t: t, ended: map[uint64]register.Result{}}
	v := view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	for i := range c.members {
		c.disks[i] = protocoltest.Disk{}
		c.logs[i] = protocol.NewJournal(c.disks[i])
		m, err := member.Start(protocol.Config{
			Self: view.MemberID(i + 1), View: v, Boot: 1, Functions: register.NewRegistry(), Limits: register.DefaultLimits(),
			Retry: time.Second, Suspect: time.Minute, Bootstrap: true, Nearest: []view.MemberID{view.MemberID((i+1)%3 + 1), view.MemberID((i+2)%3 + 1)},
		}, c.logs[i], factory)
		if err != nil {
			t.Fatal(err)
		}
		c.members[i] = m
	}
	for i := range c.members {
		c.turn(i)
	}
	return c
}

func (c *three) turn(i int) {
	e := c.members[i].Ready()
	if e.Fault != nil {
		c.t.Fatalf("member %d stops: %v", i+1, e.Fault)
	}
	c.disks[i].Write(e.Persist)
	if e.Persist.Sequence != 0 {
		c.logs[i].Persisted(e.Persist.Sequence)
	}
	for _, all := range [][]protocol.Completion{e.Complete, e.CompleteAfterPersist} {
		for _, done := range all {
			c.ended[done.Handle] = done.Result
		}
	}
	for _, all := range [][]protocol.Envelope{e.Send, e.SendAfterPersist} {
		for _, n := range all {
			c.members[n.To-1].Receive(view.MemberID(i+1), n.Message)
			c.turn(int(n.To - 1))
		}
	}
}

// do is the result of an operation at a member, at its deadline at the latest.
func (c *three) do(i int, op register.Operation) register.Result {
	c.handle++
	c.members[i].Submit(protocol.Request{Handle: c.handle, Operation: op, Deadline: c.now.Add(time.Second)})
	c.turn(i)
	for range 20 {
		c.now = c.now.Add(time.Second / 4)
		for j := range c.members {
			c.members[j].Tick(c.now)
			c.turn(j)
		}
	}
	return c.ended[c.handle]
}

// hostile has member 3 tell the others of a write that it made up.
func (c *three) hostile(kind peerv1.Kind, timestamp uint64) {
	for _, i := range []int{0, 1} {
		m := &peerv1.Message{Kind: kind, Epoch: 1, Op: 1 << 20, Key: []byte("k"), Timestamp: timestamp, Writer: uint64(register.NewWriter(3, 1, 1)),
			Present: true, Value: []byte("hostile")}
		if kind == peerv1.Kind_GUS_WRITE {
			m.Gus = &peerv1.Gus{Origin: timestamp}
		}
		c.members[i].Receive(3, m)
		c.turn(i)
	}
}

var protocols = map[string]struct {
	factory member.Factory
	write   peerv1.Kind
}{
	"ABD": {abd.Factory, peerv1.Kind_WRITE2}, "Gryff": {gryff.Factory, peerv1.Kind_WRITE2}, "GryffRSC": {gryff.FactoryRSC, peerv1.Kind_WRITE2},
	"Gus": {gus.Factory, peerv1.Kind_GUS_WRITE},
}

// A peer that tells of the largest timestamps keeps no honest write from having effect: a write that is OK is read.
// With a timestamp above the bound the peer is not heard at all.
func TestNoWriteIsOKWithoutEffect(t *testing.T) {
	for name, p := range protocols {
		for _, timestamp := range []uint64{math.MaxUint64, math.MaxUint64 - 1, register.MaxNumber + 1, register.MaxNumber, register.MaxNumber - 1} {
			t.Run(fmt.Sprint(name, "/", timestamp), func(t *testing.T) {
				c := start(t, p.factory)
				c.do(0, register.Operation{Kind: register.Write, Key: "k", Value: register.Value("first")})
				c.hostile(p.write, timestamp)
				held := ""
				for i := range c.members {
					for j := range 2 {
						value := fmt.Sprint("honest-", i, "-", j)
						w := c.do(i, register.Operation{Kind: register.Write, Key: "k", Value: register.Value(value)})
						switch {
						case w.Status == register.OK:
							held = value
						case timestamp > register.MaxNumber:
							t.Errorf("a peer with a number above the bound was heard: %v", w)
						case w.Status == register.Unavailable && w.Message == "":
							t.Error("nobody says why")
						}
						r := c.do(1, register.Operation{Kind: register.Read, Key: "k"})
						if r.Status == register.OK && w.Status == register.OK && string(r.Value) != held {
							t.Errorf("a write that was OK is not there: %q, want %q", r.Value, held)
						}
					}
				}
				if timestamp <= register.MaxNumber && name != "Gus" && c.do(0, register.Operation{Kind: register.Read, Key: "k"}).Status != register.OK {
					t.Error("what was written before can't be read any more")
				}
			})
		}
	}
}

// A transfer brings nothing above its bound, and what brings it does not stop the member.
func TestAnAdoptedRecordAboveTheBoundIsRefused(t *testing.T) {
	const above = register.MaxNumber + 1
	for name, test := range map[string]struct {
		factory member.Factory
		key     string
		record  interface{ MarshalVT() ([]byte, error) }
	}{
		"ABD":        {abd.Factory, "rk", &peerv1.RegisterRecord{Timestamp: above}},
		"Gryff":      {gryff.Factory, "rk", &peerv1.RegisterRecord{Rmws: above}},
		"Gryff rmws": {gryff.Factory, "sk", &peerv1.KeyState{Seq: above}},
		"Gryff ballot": {gryff.Factory, "ik", &peerv1.Message{Key: []byte("k"),
			Instance: &peerv1.Instance{Id: &peerv1.InstanceID{Writer: 1 << 48, Number: 1}, Ballot: above}}},
		"Gus":          {gus.Factory, "uk", &peerv1.GusRecord{Timestamp: above}},
		"Gus round":    {gus.Factory, "uk", &peerv1.GusRecord{Writes: []*peerv1.GusWrite{{VotedRound: above}}}},
		"RMWPaxos":     {rmwpaxos.Factory, "pk", &peerv1.RMWPaxosRecord{Timestamp: above}},
		"Raft's state": {raft.Factory, "a", &peerv1.RaftApplied{Index: above}},
	} {
		raw, err := test.record.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		config := protocol.Config{
			Self: 1, View: view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}, Boot: 1, Bootstrap: true,
			Functions: register.NewRegistry(), Limits: register.DefaultLimits(), Retry: time.Second, Suspect: time.Minute, Nearest: []view.MemberID{2, 3},
		}
		p := test.factory(config, protocol.NewJournal(protocoltest.Disk{}), quorum.FirstDisks(config.View))
		if err := p.Adopt([]byte(test.key), raw); !errors.Is(err, register.ErrNumber) {
			t.Errorf("%s: a record above the bound is taken: %v", name, err)
		}
		if e := p.Ready(); e.Fault != nil {
			t.Errorf("%s: it stops who fetches: %v", name, e.Fault)
		}
	}
}

// A register on disk that nobody can have written is damage: the member stops, and does not tell it to others.
func TestARecordAboveTheBoundIsDamage(t *testing.T) {
	damaged := func(message interface{ MarshalVT() ([]byte, error) }) []byte {
		raw, err := message.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	beyond := damaged(&peerv1.RegisterRecord{Timestamp: register.MaxNumber + 1, Writer: uint64(register.NewWriter(1, 1, 1)), Present: true})
	for name, test := range map[string]struct {
		factory member.Factory
		prefix  string
		record  []byte
	}{
		"ABD": {abd.Factory, "r", beyond}, "Gryff": {gryff.Factory, "r", beyond}, "GryffRSC": {gryff.FactoryRSC, "r", beyond},
		"Gus":      {gus.Factory, "u", damaged(&peerv1.GusRecord{Timestamp: register.MaxNumber + 1, Present: true})},
		"RMWPaxos": {rmwpaxos.Factory, "p", damaged(&peerv1.RMWPaxosRecord{Timestamp: register.MaxNumber + 1, Present: true})},
	} {
		disk := protocoltest.Disk{}
		key := []byte(test.prefix + "k")
		disk.Write(protocol.Batch{Sequence: 1, Mutations: []protocol.Mutation{{Key: key, Value: test.record}}})
		m, err := member.Start(protocol.Config{
			Self: 1, View: view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}, Boot: 1, Bootstrap: true, Undoubted: true,
			Functions: register.NewRegistry(), Limits: register.DefaultLimits(), Retry: time.Second, Suspect: time.Minute, Nearest: []view.MemberID{2, 3},
		}, protocol.NewJournal(disk), test.factory)
		if err != nil {
			t.Fatal(err)
		}
		m.Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: "k"}})
		if e := m.Ready(); !errors.Is(e.Fault, register.ErrNumber) {
			t.Errorf("%s goes on with a record above the bound: %v", name, e.Fault)
		}
	}
}

// An rmw whose carstamp would be above the bound is refused by all members alike, and none stops.
func TestAnRMWBeyondTheBoundIsRefused(t *testing.T) {
	c := start(t, gryff.Factory)
	for _, i := range []int{0, 1} {
		c.members[i].Receive(3, &peerv1.Message{Kind: peerv1.Kind_WRITE2, Epoch: 1, Op: 1 << 20, Key: []byte("k"), Timestamp: 5, Rmws: register.MaxNumber,
			Writer: uint64(register.NewWriter(3, 1, 1)), Present: true, Value: []byte("1")})
		c.turn(i)
	}
	for i := range c.members {
		r := c.do(i, register.Operation{Kind: register.RMW, Key: "k", Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}, MaxValueBytes: 100}})
		if r.Status == register.OK || r.Message == "" {
			t.Errorf("member %d: %v", i+1, r)
		}
	}
	if w := c.do(0, register.Operation{Kind: register.Write, Key: "k", Value: register.Value("7")}); w.Status != register.OK {
		t.Errorf("a write, which begins anew, is %v", w)
	}
}
