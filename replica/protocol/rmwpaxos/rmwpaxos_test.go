package rmwpaxos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// cluster is members that hear of each other at once, and whose disks lose no time.
type cluster struct {
	members  []*Protocol
	journals []*protocol.Journal
	disks    []protocoltest.Disk
	done     []protocol.Completion
	persists int // batches
	messages int
	sees     func(from view.MemberID, x protocol.Envelope) // nil: nobody looks at the messages that run delivers
}

func newCluster(n int) *cluster {
	c := &cluster{}
	v := view.View{Cluster: "test", Epoch: 1}
	for i := range n {
		v.Members = append(v.Members, view.Member{ID: view.MemberID(i + 1)})
	}
	for i := range n {
		config := protocol.Config{
			Self: view.MemberID(i + 1), View: v, Boot: 1, Retry: time.Second, Suspect: 3 * time.Second, Seed: uint64(i), Functions: register.NewRegistry(),
		}
		for _, m := range v.Members {
			if m.ID != config.Self {
				config.Nearest = append(config.Nearest, m.ID)
			}
		}
		disk := protocoltest.Disk{}
		j := protocol.NewJournal(disk)
		c.disks, c.journals = append(c.disks, disk), append(c.journals, j)
		c.members = append(c.members, newProtocol(config, j, quorum.FirstDisks(v), Options{}))
	}
	return c
}

// run has everyone step until nothing is left to be said.
func (c *cluster) run() {
	for quiet := false; !quiet; {
		quiet = true
		for i, p := range c.members {
			e := p.Ready()
			if e.Fault != nil {
				panic(e.Fault)
			}
			if e.Persist.Sequence != 0 {
				c.persists++
				c.disks[i].Write(e.Persist)
				c.journals[i].Persisted(e.Persist.Sequence)
			}
			c.done = append(append(c.done, e.Complete...), e.CompleteAfterPersist...)
			for _, x := range append(slices.Clone(e.Send), e.SendAfterPersist...) {
				quiet = false
				c.messages++
				if c.sees != nil {
					c.sees(p.Config.Self, x)
				}
				c.members[x.To-1].Receive(p.Config.Self, x.Message)
			}
		}
	}
}

func (c *cluster) submit(member int, op register.Operation) register.Result {
	c.done = nil
	c.members[member-1].Submit(protocol.Request{Handle: 1, Operation: op})
	c.run()
	if len(c.done) != 1 {
		panic(fmt.Sprintf("%v is answered by %v", op, c.done))
	}
	return c.done[0].Result
}

func write(key, v string) register.Operation {
	return register.Operation{Kind: register.Write, Key: key, Value: register.Value(v)}
}

func add(key string, id register.ID) register.Operation {
	return register.Operation{Kind: register.RMW, Key: key, ID: id, Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}, MaxValueBytes: 1 << 20}}
}

// A read of a register at rest takes two message delays, to a majority, and no disk is written to (section 6).
func TestAReadOfAStableRegisterChangesNothing(t *testing.T) {
	c := newCluster(5)
	if r := c.submit(1, write("k", "v")); r.RoundTrips != 2 {
		t.Errorf("the first write took %d round trips, want one for each phase", r.RoundTrips)
	}
	if r := c.submit(1, write("k", "w")); r.RoundTrips != 1 || !r.Fast {
		t.Errorf("the second write took %d round trips, want 1", r.RoundTrips)
	}
	c.persists, c.messages = 0, 0
	for member := range 5 {
		r := c.submit(member+1, register.Operation{Kind: register.Read, Key: "k"})
		if string(r.Value) != "w" || r.RoundTrips != 1 || !r.Fast {
			t.Errorf("member %d reads %+v", member+1, r)
		}
	}
	if c.persists != 0 || c.messages != 5*2*2 {
		t.Errorf("5 reads wrote %d batches and sent %d messages, want none and 20", c.persists, c.messages)
	}
	for _, p := range c.members[1:] {
		if len(p.objects) != 0 || p.Pending() != 0 {
			t.Errorf("member %d remembers %d keys that it has read", p.Config.Self, len(p.objects))
		}
	}
}

// What a state holds beside the value is bounded, however many clients and members have written.
func TestTheTableIsBounded(t *testing.T) {
	c := newCluster(3)
	for i := range 3000 {
		c.submit(i%3+1, add("k", register.ID{Session: uint64(i) + 1, Number: 1, FirstIncomplete: 1, IssuedAt: int64(i)}))
	}
	a := c.members[0].Load([]byte("k"))
	table := &peerv1.KeyState{}
	if err := table.UnmarshalVT(a.Table); err != nil {
		t.Fatal(err)
	}
	if string(a.Value) != "3000" || len(table.Executed) != 3 || len(table.Sessions) != 1024 {
		t.Errorf("value %s, batches of %d members, %d sessions; want 3000, 3 and 1024", a.Value, len(table.Executed), len(table.Sessions))
	}
	if size := len(a.Table); size > 1024*64+3*100 {
		t.Errorf("the table has %d bytes", size)
	}
	t.Logf("%d bytes with 1024 sessions", len(a.Table))
	for i := range 10 {
		c.submit(i%3+1, write("w", "v"))
	}
	if size := len(c.members[0].Load([]byte("w")).Table); size > 3*60 {
		t.Errorf("after writes of three members, the table has %d bytes", size)
	} else {
		t.Logf("%d bytes after writes of three members", size)
	}
}

// A batch that is in the state has answered what it did then, and the state holds an answer once: an rmw's with its
// session, a write's, which has none, with the batch.
func TestABatchAnswersAgainWhatItDid(t *testing.T) {
	p := newCluster(3).members[0]
	b := &batch{author: p.author, number: 1, left: true, commands: []*peerv1.Command{
		wire.Command(add("k", register.ID{Session: 7, Number: 1, FirstIncomplete: 1, IssuedAt: 1})),
		{Function: writeCommand, Args: [][]byte{[]byte("v")}},
	}}
	first, answers, _ := (&application{protocol: p}).apply([]*batch{b})
	again, repeated, changed := (&application{protocol: p, next: first}).apply([]*batch{b})
	if changed || string(again.Value) != "v" {
		t.Errorf("it is applied again: %q", again.Value)
	}
	for k, answer := range answers[0] {
		if !proto.Equal(repeated[0][k], answer) {
			t.Errorf("command %d answers %v, and %v again", k, answer, repeated[0][k])
		}
	}
	table := &peerv1.KeyState{}
	if err := table.UnmarshalVT(first.Table); err != nil {
		t.Fatal(err)
	}
	held := table.Executed[0].Answers
	if !proto.Equal(held[0], session.Forgotten) || !proto.Equal(held[1], answers[0][1]) {
		t.Errorf("the batch holds %v", held)
	}
}

// The keys that a member has proposed for last rest with it, up to a bound, and go on to be fast.
func TestRestingKeysAreBounded(t *testing.T) {
	c := newCluster(3)
	for i := range maxResting + 500 {
		c.submit(1, write(fmt.Sprint(i), "v"))
	}
	for _, p := range c.members {
		p.Tick(p.Now)
	}
	c.run()
	p := c.members[0]
	if len(p.objects) > maxResting || len(p.resting) > maxResting || p.Pending() != 0 || len(p.busy) != 0 {
		t.Errorf("%d keys, %d resting, %d pending, %d busy", len(p.objects), len(p.resting), p.Pending(), len(p.busy))
	}
	if r := c.submit(1, write(fmt.Sprint(maxResting+499), "w")); r.RoundTrips != 1 {
		t.Errorf("the last key took %d round trips", r.RoundTrips)
	}
	if r := c.submit(1, write("0", "w")); r.RoundTrips != 2 {
		t.Errorf("a key that was forgotten took %d round trips", r.RoundTrips)
	}
}

// A client that sends an rmw again, through another member, has the answer of the first time.
func TestADuplicateGetsTheFirstAnswer(t *testing.T) {
	c := newCluster(3)
	id := register.ID{Session: 7, Number: 1, FirstIncomplete: 1, IssuedAt: 1}
	first := c.submit(1, add("k", id))
	c.submit(2, add("k", register.ID{}))
	again := c.submit(3, add("k", id))
	if string(first.Value) != "1" || string(again.Value) != "1" || again.Status != register.OK {
		t.Errorf("answers %+v and %+v", first, again)
	}
	if r := c.submit(2, register.Operation{Kind: register.Read, Key: "k"}); string(r.Value) != "2" {
		t.Errorf("the value is %s", r.Value)
	}
}

func TestRoundsAreComparedAsThePaperSays(t *testing.T) {
	a, b := round{Number: 3, Proposer: 1, Attempt: 1}, round{Number: 3, Proposer: 2, Attempt: 1}
	if above(a, b) || above(b, a) || a == b {
		t.Error("rounds of one n and two ids are neither in an order nor equal")
	}
	if j := join(a, b); j.Number != 3 || j == a || j == b {
		t.Errorf("who has promised %v and %v votes in %v", a, b, j)
	}
	if join(a, round{Number: 4, Proposer: 9, Attempt: 9}) != (round{Number: 4, Proposer: 9, Attempt: 9}) || join(a, round{Number: 2, Proposer: 9, Attempt: 9}) != a || join(a, a) != a {
		t.Error("the higher promise counts")
	}
}

func TestPathsAreNamedOnce(t *testing.T) {
	paths := slices.Concat(Paths(), ChangePaths())
	slices.Sort(paths)
	if len(slices.Compact(slices.Clone(paths))) != len(paths) {
		t.Errorf("a path is named twice: %v", paths)
	}
}

func TestADamagedRecordStopsTheMember(t *testing.T) {
	for name, step := range map[string]func(*Protocol){
		"read": func(p *Protocol) {
			p.Submit(protocol.Request{Operation: register.Operation{Kind: register.Read, Key: "k"}})
		},
		"write": func(p *Protocol) { p.Submit(protocol.Request{Operation: write("k", "v")}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(3)
			c.journals[0].Put([]byte("pk"), []byte{0xff})
			step(c.members[0])
			if e := c.members[0].Ready(); e.Fault == nil || len(e.Send)+len(e.SendAfterPersist) != 0 {
				t.Errorf("the member goes on: %+v", e)
			}
		})
	}
}

// FuzzReceive throws messages at a member with operations in progress. It must not panic, nor answer anybody but the
// sender.
func FuzzReceive(f *testing.F) {
	for kind := range peerv1.Kind_name { // the order of seeds does not matter
		m := &peerv1.Message{Kind: peerv1.Kind(kind), Op: 1<<56 | 1<<40 | 1, Key: []byte("k"), RmwPaxos: &peerv1.RMWPaxos{
			Try: 1, Round: &peerv1.RMWPaxosRound{N: 1, Proposer: 1<<48 | 1<<32 | 1, Attempt: 1<<56 | 1<<40 | 1},
		}, Instance: &peerv1.Instance{Id: &peerv1.InstanceID{Writer: 2<<48 | 1<<32, Number: 1}, Commands: []*peerv1.Command{{Function: writeCommand}}}}
		encoded, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(2), encoded)
	}
	f.Fuzz(func(t *testing.T, from uint8, encoded []byte) {
		m := &peerv1.Message{}
		if m.UnmarshalVT(encoded) != nil {
			return
		}
		p := newCluster(5).members[0]
		for i, op := range []register.Operation{{Kind: register.Read, Key: "k"}, write("k", "v"), add("k", register.ID{})} {
			p.Submit(protocol.Request{Handle: uint64(i), Operation: op})
		}
		p.Ready()
		p.Receive(view.MemberID(from), m)
		p.Tick(protocol.Instant(time.Second))
		p.Ready()
	})
}

// BenchmarkRegisters is the pure step of three members, without network and disk: a read and a write in turns, of so
// many registers (figure 5 of the paper has 1 to 10^6).
func BenchmarkRegisters(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newCluster(3)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprint(i)
				c.submit(1, write(keys[i], "0123456789abcdef"))
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				key := keys[i*7919%n]
				if i%2 == 0 {
					c.submit(1, write(key, "fedcba9876543210"))
				} else {
					c.submit(1, register.Operation{Kind: register.Read, Key: key})
				}
			}
			if c.members[0].Pending() != 0 {
				b.Error("something is left")
			}
		})
	}
}

// A key that rested, was forgotten and has work again is not forgotten when more keys rest than may.
func TestAKeyThatHasWorkAgainIsNotForgotten(t *testing.T) {
	c := newCluster(3)
	p := c.members[0]
	p.Config.Tuning.Resting = 1
	c.submit(1, write("k", "v"))
	p.Tick(p.Now)
	c.run()
	rested := p.object([]byte("k"))
	rested.lead = lead{} // as after a proposal of another member
	p.release(rested)
	p.Submit(protocol.Request{Handle: 7, Operation: write("k", "w")})
	other := p.object([]byte("other"))
	other.hot = p.Now + 1
	p.release(other)
	if unfinished := p.Unfinished(); len(unfinished) != 1 || unfinished[0].Handle != 7 {
		t.Errorf("the view would change with %v in progress, not with the write", unfinished)
	}
}
