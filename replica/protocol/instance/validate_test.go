package instance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

// cluster is members of EPaxos without a world: batches are durable at once, messages arrive in any order or never, and
// some members are silent from some time on.
type cluster struct {
	*rand.Rand
	members  []*Core
	journals []*protocol.Journal
	disks    []protocoltest.Disk
	now      []protocol.Instant
	silent   []bool
	packets  []packet

	commits map[instanceID]attributes
	calls   []*call
	wrong   string
}

type packet struct {
	from, to int
	message  *peerv1.Message
}

// call is an operation of a client, and what was answered.
type call struct {
	register.Operation
	answered bool
	early    bool // before it was executed where it was answered
	result   register.Result
	after    []*call    // what had been answered when it began
	id       instanceID // of the instance that carried it when it was answered early
}

func newCluster(seed uint64, n int) *cluster {
	c := &cluster{
		Rand: rand.New(rand.NewPCG(seed, uint64(n))), silent: make([]bool, n), now: make([]protocol.Instant, n),
		commits: map[instanceID]attributes{},
	}
	v := view.View{Cluster: "test", Epoch: 1}
	for i := range n {
		v.Members = append(v.Members, view.Member{ID: view.MemberID(i + 1)})
	}
	for i := range n {
		config := protocol.Config{
			Self: view.MemberID(i + 1), View: v, Boot: 1, Functions: register.NewRegistry(), Seed: seed<<8 + uint64(i),
			Limits: register.DefaultLimits(), Retry: time.Second, Suspect: 5 * time.Second,
		}
		for _, k := range c.Perm(n) {
			if k != i {
				config.Nearest = append(config.Nearest, v.Members[k].ID)
			}
		}
		c.disks = append(c.disks, protocoltest.Disk{})
		c.journals = append(c.journals, protocol.NewJournal(c.disks[i]))
		b := base.New("test", config, c.journals[i], quorum.FirstDisks(v))
		c.members = append(c.members, New(b, Options{Commands: "command", Lanes: 2}))
		c.tick(i, 1)
	}
	return c
}

func (c *cluster) tick(i int, by time.Duration) {
	c.now[i] = c.now[i].Add(by)
	c.members[i].Tick(c.now[i])
	c.ready(i)
}

func (c *cluster) submit(i int, op register.Operation) {
	op.Key = "k"
	began := &call{Operation: op}
	for _, other := range c.calls {
		if other.answered {
			began.after = append(began.after, other)
		}
	}
	c.calls = append(c.calls, began)
	c.members[i].Submit(protocol.Request{Handle: uint64(len(c.calls)), Operation: op})
	c.ready(i)
}

// ready does what a member's step asks for, and notes what it commits and answers.
func (c *cluster) ready(i int) {
	p := c.members[i]
	e := p.Ready()
	if e.Fault != nil {
		c.fail("member %d: %v", i+1, e.Fault)
	}
	c.disks[i].Write(e.Persist)
	if e.Persist.Sequence != 0 {
		c.journals[i].Persisted(e.Persist.Sequence)
	}
	for _, m := range slices.Concat(e.Send, e.SendAfterPersist) {
		if m.Message.Kind == peerv1.Kind_COMMIT {
			c.committed(m.Message)
		}
		if to := int(m.To) - 1; !c.silent[i] {
			c.packets = append(c.packets, packet{i, to, m.Message})
		}
	}
	for _, done := range slices.Concat(e.Complete, e.CompleteAfterPersist) {
		if c.silent[i] {
			continue
		}
		a := c.calls[done.Handle-1]
		a.answered, a.result = true, done.Result
		for _, d := range p.object([]byte("k")).mine {
			for _, r := range d.requests {
				if r.Handle == done.Handle && d.status == peerv1.Status_COMMITTED && !d.forgotten {
					a.early, a.id = true, d.id
				}
			}
		}
	}
}

func (c *cluster) fail(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = fmt.Sprintf(format, args...)
	}
}

// committed holds it that nobody else commits the instance with other attributes.
func (c *cluster) committed(m *peerv1.Message) {
	id, a := idOf(m.Instance.Id), attributesOf(m)
	b, known := c.commits[id]
	if known && (!a.sameAs(&b) || len(a.commands) != len(b.commands)) {
		c.fail("instance %v is committed with %v %d, and with %v %d", id, a.deps, a.seq, b.deps, b.seq)
	}
	c.commits[id] = a
}

// step delivers a message that is under way, loses one, or has time go by.
func (c *cluster) step(loss int) {
	if len(c.packets) == 0 || c.IntN(40) == 0 {
		if i := c.IntN(len(c.members)); !c.silent[i] {
			c.tick(i, time.Duration(c.IntN(4000))*time.Millisecond)
		}
		return
	}
	k := c.IntN(len(c.packets))
	p := c.packets[k]
	c.packets[k] = c.packets[len(c.packets)-1]
	c.packets = c.packets[:len(c.packets)-1]
	if c.silent[p.to] || c.silent[p.from] || c.IntN(100) < loss {
		return
	}
	c.members[p.to].Receive(view.MemberID(p.from+1), p.message.CloneVT())
	c.ready(p.to)
}

// settle has everything end that can, and reports whether it does.
func (c *cluster) settle() bool {
	for range 400 {
		for len(c.packets) > 0 && c.wrong == "" {
			c.step(0)
		}
		pending := 0
		for i, p := range c.members {
			if !c.silent[i] {
				c.tick(i, time.Duration(c.IntN(2000))*time.Millisecond)
				pending += p.Pending()
			}
		}
		if pending == 0 && len(c.packets) == 0 || c.wrong != "" {
			return true
		}
	}
	return false
}

// judge holds it that of two updates one depends on the other, that what was answered early comes before what began
// later, and that a read has all that was answered before it.
func (c *cluster) judge() {
	update := func(a *attributes) bool { return len(a.commands) > 0 && !a.reads() }
	for a, x := range c.commits { // order is irrelevant: any mistake will do
		for b, y := range c.commits { // order is irrelevant: any mistake will do
			if a != b && a.writer != b.writer && update(&x) && update(&y) &&
				x.deps.of(b.writer) < b.number && y.deps.of(a.writer) < a.number {
				c.fail("neither of instances %v and %v depends on the other", a, b)
			}
		}
	}
	for _, later := range c.calls {
		for _, a := range later.after {
			if later.answered && later.Kind == register.Read && a.Kind == register.RMW &&
				!strings.Contains(string(later.result.Value), string(a.Call.Args[0])) {
				c.fail("a read has %q, and began after %q was answered", later.result.Value, a.Call.Args[0])
			}
		}
	}
	for b, y := range c.commits { // order is irrelevant: any mistake will do
		for _, r := range y.commands {
			for _, later := range c.calls {
				if y.reads() || r.Kind != peerv1.CommandKind_WRITE_COMMAND || string(r.Value) != string(later.Value) {
					continue
				}
				for _, a := range later.after {
					if x := c.commits[a.id]; a.early && (y.deps.of(a.id.writer) < a.id.number || y.seq <= x.seq) {
						c.fail("%v with seq %d was answered early, before %v with %d began", a.id, x.seq, b, y.seq)
					}
				}
			}
		}
	}
}

// runValidated is a course of a seed: operations that interfere begin about at once, then as many members as may be are
// silent, and the others end what they began. The silent ones may be heard again.
func runValidated(seed uint64) string {
	n := []int{5, 5, 5, 7}[seed%4]
	c := newCluster(seed, n)
	writes := c.IntN(2) == 0
	next := func() {
		name := fmt.Sprintf("<%d>", len(c.calls))
		op := register.Operation{Kind: register.RMW, Call: register.Call{Function: register.Append, Args: [][]byte{[]byte(name)}}}
		switch {
		case c.IntN(5) == 0:
			op = register.Operation{Kind: register.Read}
		case writes && c.IntN(3) > 0:
			op = register.Operation{Kind: register.Write, Value: register.Value(name)}
		case writes:
			return
		}
		if i := c.IntN(n); !c.silent[i] {
			c.submit(i, op)
		}
	}
	loss := []int{0, 10, 30}[c.IntN(3)]
	for range 2 + c.IntN(3) {
		next()
		for range c.IntN(14) {
			c.step(loss)
		}
	}
	for range 1 + c.IntN(3) {
		clear(c.silent)
		for _, i := range c.Perm(n)[:(n-1)/2-c.IntN(2)*c.IntN(2)] {
			c.silent[i] = true
			for range c.IntN(10) {
				c.step(loss)
			}
		}
		for range 2 {
			for range c.IntN(150) {
				c.step(loss)
			}
			next()
		}
	}
	if c.IntN(2) == 0 {
		clear(c.silent)
	}
	if !c.settle() {
		c.fail("it does not come to an end")
	}
	c.judge()
	return c.wrong
}

// findValidated is the first of so many courses that goes wrong.
func findValidated(seeds uint64) (seed uint64, wrong string) {
	for seed := range seeds {
		if wrong := runValidated(seed); wrong != "" {
			return seed, wrong
		}
	}
	return 0, ""
}

func TestRecoveriesThatValidate(t *testing.T) {
	t.Parallel()
	if seed, wrong := findValidated(4000); wrong != "" {
		t.Fatalf("seed %d: %s", seed, wrong)
	}
}

// The rules below are about what the search rarely comes to: each is shown by itself, and with the mistake.

// instanceMessage tells member 1 of an instance that writes a value to key k.
func instanceMessage(kind peerv1.Kind, id *peerv1.InstanceID, ballot, seq uint64, deps ...*peerv1.InstanceID) *peerv1.Message {
	return &peerv1.Message{Kind: kind, Epoch: 1, Op: 1, Key: []byte("k"), Instance: &peerv1.Instance{
		Id: id, Ballot: ballot, Seq: seq, Deps: deps,
		Commands: []*peerv1.Command{{Kind: peerv1.CommandKind_WRITE_COMMAND, Present: true, Value: []byte("v")}},
	}}
}

// effectsOf is what member 1 sends and answers since it was last asked.
func effectsOf(p *Core) (sent []*peerv1.Message, answers []protocol.Completion) {
	e := p.Ready()
	for _, m := range slices.Concat(e.Send, e.SendAfterPersist) {
		sent = append(sent, m.Message)
	}
	return sent, slices.Concat(e.Complete, e.CompleteAfterPersist)
}

func writes(value string) protocol.Request {
	op := register.Operation{Kind: register.Write, Key: "k", Value: register.Value(value)}
	return protocol.Request{Handle: 1, Operation: op}
}

// proposed is the first PreAccept among messages.
func proposed(t *testing.T, sent []*peerv1.Message) *peerv1.Instance {
	t.Helper()
	for _, m := range sent {
		if m.Kind == peerv1.Kind_PRE_ACCEPT {
			return m.Instance
		}
	}
	t.Fatal("nothing is proposed")
	return nil
}

var ruleTests = map[string]func(t *testing.T) (kept bool){
	"new-disk-agrees": func(t *testing.T) bool {
		p := toldOf(5, 0)
		p.Incarnations.Learn(1, 2)
		p.Receive(2, instanceMessage(peerv1.Kind_PRE_ACCEPT, another(2), 0, 1))
		sent, _ := effectsOf(p)
		return len(sent) == 1 && !sent[0].Instance.Agreed
	},
	"propose-named": func(t *testing.T) bool {
		p := toldOf(5, 0)
		p.Receive(3, instanceMessage(peerv1.Kind_COMMIT, another(3), 0, 5, another(4)))
		p.Submit(writes("w"))
		sent, _ := effectsOf(p)
		deps, seq := vectorOf(proposed(t, sent).Deps), proposed(t, sent).Seq
		return deps.of(idOf(another(4)).writer) == 0 && deps.of(idOf(another(3)).writer) == 1 && seq == 6
	},
	"validate-unnoted": func(t *testing.T) bool {
		p := toldOf(5, 0)
		p.Receive(3, instanceMessage(peerv1.Kind_VALIDATE, another(2), ballotAfter(0, 3), 1))
		p.Submit(writes("w"))
		sent, _ := effectsOf(p)
		return vectorOf(proposed(t, sent).Deps).of(idOf(another(2)).writer) == 1
	},
	"answer-accepted": func(t *testing.T) bool {
		p := toldOf(5, 0)
		p.Submit(writes("w"))
		preAccepted(p, 2, another(5), 3)
		preAccepted(p, 3, nil, 1)
		id := p.name(p.object([]byte("k")).mine[0].id)
		ok := func(from view.MemberID) (answers []protocol.Completion) {
			m := p.message(peerv1.Kind_ACCEPT_OK, p.object([]byte("k")).mine[0].acceptOp, p.object([]byte("k")), idOf(id))
			p.Receive(from, m)
			_, answers = effectsOf(p)
			return answers
		}
		ok(2)
		few := ok(3)
		if s := p.object([]byte("k")).mine[0].status; s != peerv1.Status_COMMITTED {
			t.Fatalf("it is %v after a majority", s)
		}
		return len(few) == 0 && len(ok(4)) == 1
	},
	"keep-overtaken-read": func(t *testing.T) bool {
		p := toldOf(5, 0)
		p.Submit(protocol.Request{Handle: 1, Operation: register.Operation{Kind: register.Read, Key: "k"}})
		mine := p.name(p.object([]byte("k")).mine[0].id)
		p.Receive(3, &peerv1.Message{Kind: peerv1.Kind_PREPARE, Epoch: 1, Op: 1, Key: []byte("k"), Instance: &peerv1.Instance{
			Id: mine, Ballot: ballotAfter(0, 3),
		}})
		effectsOf(p)
		m := instanceMessage(peerv1.Kind_COMMIT, mine, ballotAfter(0, 3), 1)
		m.Instance.Commands = []*peerv1.Command{{Kind: peerv1.CommandKind_READ_COMMAND}}
		p.Receive(3, m)
		sent, answers := effectsOf(p)
		return len(answers) == 0 && proposed(t, sent).Id.Number > 1
	},
}

func TestRulesOfValidation(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for name, kept := range ruleTests { // order is irrelevant: each is a test
		t.Run(name+", correct", func(t *testing.T) {
			if !kept(t) {
				t.Error("the rule is not kept")
			}
		})
		program.Run(t, name, "instance/"+name, func(t *testing.T) {
			if kept(t) {
				t.Error("not found")
			}
		})
	}
}

func TestMistakesOfRecoveriesThatValidate(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, name := range []string{
		"trust-few-votes", "deny-few-votes", "wait-for-no-rival", "any-rival-denies", "silent-rivals-wait", "committed-rivals-wait",
		"validate-one-short", "forget-told", "no-op-rivals",
	} {
		program.Run(t, name, "instance/"+name, func(t *testing.T) {
			seed, wrong := findValidated(30000)
			if wrong == "" {
				t.Fatal("not found")
			}
			t.Logf("seed %d: %s", seed, wrong)
		})
	}
}
