package runtime

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// submit starts an operation at a member without waiting.
func (c *cluster) submit(i int, op register.Operation, timeout time.Duration, answers chan register.Result) {
	c.t.Helper()
	if !c.replicas[i].Submit(op, timeout, func(r register.Result) { answers <- r }) {
		c.t.Fatal("an operation is not taken")
	}
}

func (c *cluster) cut(i int) {
	c.t.Helper()
	for _, m := range c.view.Members {
		if m.ID == view.MemberID(i+1) {
			continue
		}
		if err := c.replicas[i].Block(m.ID, transport.Outgoing|transport.Incoming); err != nil {
			c.t.Fatal(err)
		}
	}
}

func appending(key string) register.Operation {
	return register.Operation{Kind: register.RMW, Key: key, Call: register.Call{Function: register.Append, Args: [][]byte{[]byte("+")}}}
}

// Operations that can't end in one replica end in the next one, each once, and take effect once.
func TestOperationsGoOnAtTheNextReplica(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "gryff", Shards: 2})
	const keys = 20
	answers := make(chan register.Result, 4*keys)
	c.awaitVotes()
	c.cut(0)
	for i := range keys {
		c.submit(0, register.Operation{Kind: register.Write, Key: fmt.Sprint("w-", i), Value: register.Value("v")}, 0, answers)
		c.submit(0, register.Operation{Kind: register.Read, Key: fmt.Sprint("w-", i)}, patience, answers)
		c.submit(0, appending(fmt.Sprint("n-", i)), patience, answers)
	}
	before := c.replicas[0]
	carried, _, err := before.HandOver()
	if err != nil || len(carried) != 3*keys || len(answers) > 0 {
		t.Fatalf("%d operations are carried over, %d ended, %v; want %d, 0", len(carried), len(answers), err, 3*keys)
	}
	if before.Submit(appending("n-0"), 0, func(register.Result) { t.Error("it is answered") }) {
		t.Error("a replica that carried its operations over takes more")
	}
	carried = append(carried, NewHandover(appending("n-0"), patience, func(r register.Result) { answers <- r }))
	c.restart(0)
	c.replicas[0].Resume(carried)
	for range 3*keys + 1 {
		if r := <-answers; r.Status != register.OK {
			t.Errorf("an operation ended as %s: %s", r.Status, r.Message)
		}
	}
	if n := len(answers); n > 0 {
		t.Errorf("%d answers too many", n)
	}
	for i := range keys {
		want := "+"
		if i == 0 {
			want = "++"
		}
		c.expect(1, fmt.Sprint("n-", i), want)
		c.expect(2, fmt.Sprint("w-", i), "v")
	}
}

// A change of the view is made when a member is dead, so that the next replica must not wait for it once more.
func TestTheNextReplicaKnowsWhoWasAway(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "abd", Retry: time.Hour}, storage.Options{Durability: storage.Sync})
	c.write(0, "k", "before")
	c.stop(1) // the nearest of member 1
	eventually(t, "the loss is noticed", func() bool { return slices.Equal(c.replicas[0].away(), []view.MemberID{2}) })
	var err error
	if _, c.base.Inheritance, err = c.replicas[0].HandOver(); err != nil {
		t.Fatal(err)
	}
	c.restart(0)
	c.expect(0, "k", "before") // long before the retry
	c.write(0, "k", "after")
}

// promising is a protocol that has promised something.
type promising struct {
	protocol.Protocol
	until func() protocol.Instant
}

var _ protocol.Partitioned = promising{}

func (p promising) PartitionStatus() protocol.PartitionStatus { return protocol.PartitionStatus{} }

func (p promising) Promised() protocol.Instant { return p.until() }

// What a shard's protocol has promised binds the next one, though it is told the time by another clock.
func TestPromisesAreKnownToTheNextReplica(t *testing.T) {
	var replica *Replica
	told := map[int]protocol.Instant{} // by shard: what the last protocol was told
	options := quick()
	options.Protocol = "toy"
	options.start = func(c protocol.Config, j *protocol.Journal) (protocol.Protocol, error) {
		told[c.Shard] = c.Promised
		return promising{newToy(c, j), func() protocol.Instant {
			if c.Shard == 0 {
				return replica.clock.now().Add(time.Hour)
			}
			return c.Promised
		}}, nil
	}
	c := newCluster(t, 1, options, memory)
	replica = c.replicas[0]
	if told[0] != 0 || told[1] != 0 {
		t.Errorf("the first protocols are told of promises: %v", told)
	}
	_, left, err := replica.HandOver()
	if err != nil {
		t.Fatal(err)
	}
	c.base.Promised = left.Promised
	c.restart(0)
	if ahead := told[0].Sub(c.replicas[0].clock.now()); ahead < 59*time.Minute || ahead > time.Hour || told[1] != 0 {
		t.Errorf("promised for an hour, which ends %v ahead; where nothing is known: %v", ahead, told[1])
	}
	replica, c.replicas[0] = c.replicas[0], nil
	if _, left, err = replica.HandOver(); err != nil {
		t.Fatal(err)
	}
	c.base.Promised = left.Promised[:1]
	c.restart(0)
	if told[0] == 0 || told[1] != 0 {
		t.Errorf("the second shard is new, where nothing is known: %v", told)
	}
}

// What a protocol can't name is not known to have failed.
func TestWhatIsNotCarriedOverEndsAsUnknown(t *testing.T) {
	c := newCluster(t, 3, quick(), memory) // the toy can't name what it does
	c.cut(0)
	answers := make(chan register.Result, 2)
	c.submit(0, register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")}, 0, answers)
	eventually(t, "the protocol has it", func() bool { return c.replicas[0].Status().Shards[Shard("k", 2)].Queue == 0 })
	carried, _, err := c.replicas[0].HandOver()
	c.replicas[0] = nil
	if err != nil || len(carried) > 0 {
		t.Errorf("%d are carried over, %v", len(carried), err)
	}
	if r := <-answers; r.Status != register.Unknown {
		t.Errorf("it ended as %s: %s", r.Status, r.Message)
	}
}

func TestCarriedOperationsEndOnce(t *testing.T) {
	c := newCluster(t, 1, quick(), memory)
	issued := "something"
	read := register.Operation{Kind: register.Read, Key: "k"}
	for name, test := range map[string]struct {
		operation register.Operation
		resume    protocol.Resume
		timeout   time.Duration
		then      func(*Handover)
		want      register.Status
		says      string
	}{
		"late":               {read, nil, time.Millisecond, nil, register.Unavailable, "time was up"},
		"late, and issued":   {read, issued, time.Millisecond, nil, register.Unknown, "time was up"},
		"nobody goes on":     {read, nil, 0, func(c *Handover) { c.End("removed") }, register.Unavailable, "removed"},
		"nobody, and issued": {read, issued, patience, func(c *Handover) { c.End("removed") }, register.Unknown, "removed"},
		"in time":            {read, nil, patience, func(o *Handover) { c.replicas[0].Resume([]*Handover{o}) }, register.OK, ""},
		"invalid": {register.Operation{Kind: register.Read}, nil, 0, func(o *Handover) { c.replicas[0].Resume([]*Handover{o}) },
			register.Invalid, "key is empty"},
	} {
		answers := make(chan register.Result, 3)
		held := &Handover{operation: test.operation, resume: test.resume, begun: time.Now(), done: func(r register.Result) { answers <- r }}
		if test.timeout > 0 {
			held.deadline = held.begun.Add(test.timeout)
		}
		held.watched()
		if test.then != nil {
			test.then(held)
		}
		if r := <-answers; r.Status != test.want || !strings.Contains(r.Message, test.says) {
			t.Errorf("%s: %s %q, want %s %q", name, r.Status, r.Message, test.want, test.says)
		}
		if test.timeout > 0 { // whoever comes late changes nothing
			held.End("too late")
			c.replicas[0].Resume([]*Handover{held})
		}
		if c.expect(0, "k", ""); len(answers) > 0 {
			t.Errorf("%s: it is answered again: %+v", name, <-answers)
		}
	}
}

// stepping is a protocol that knows in which step each operation came that goes on.
type stepping struct {
	protocol.Protocol
	step    int
	resumed map[int]int // by step: how many
}

func (p *stepping) Submit(r protocol.Request) {
	if r.Resume != nil {
		p.resumed[p.step]++
	}
	p.Protocol.Submit(r)
}

func (p *stepping) Ready() protocol.Effects {
	p.step++
	return p.Protocol.Ready()
}

// What goes on comes to the protocol in one step, however much it is (protocol.Resume).
func TestWhatGoesOnComesInOneStep(t *testing.T) {
	var p *stepping
	options := Options{Protocol: "toy", Shards: 1}
	options.start = func(c protocol.Config, j *protocol.Journal) (protocol.Protocol, error) {
		p = &stepping{Protocol: newToy(c, j), resumed: map[int]int{}}
		return p, nil
	}
	c := newCluster(t, 1, options, memory)
	const all = 3 * turnInputs
	answers := make(chan register.Result, all)
	var carried []*Handover
	for i := range all {
		h := &Handover{
			operation: register.Operation{Kind: register.Read, Key: "k"}, begun: time.Now(),
			done: func(r register.Result) { answers <- r },
		}
		if i%2 == 0 { // nobody has heard of the others
			h.resume = "something"
		}
		carried = append(carried, h)
	}
	c.replicas[0].Resume(carried)
	for range all {
		if r := <-answers; r.Status != register.OK {
			t.Fatalf("an operation ended as %s: %s", r.Status, r.Message)
		}
	}
	if len(p.resumed) != 1 {
		t.Errorf("they came in these steps: %v", p.resumed)
	}
}

// An operation whose time is over when the next replica begins has a deadline, and not none.
func TestADeadlineBeforeTheReplicaIsOne(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "abd"})
	c.cut(0)
	answers := make(chan register.Result, 1)
	c.replicas[0].Resume([]*Handover{{
		operation: register.Operation{Kind: register.Read, Key: "k"}, done: func(r register.Result) { answers <- r },
		begun: c.replicas[0].start.Add(-2 * time.Second), deadline: c.replicas[0].start.Add(-time.Second),
	}})
	if r := <-answers; r.Status != register.Unavailable {
		t.Errorf("it ended as %s: %s", r.Status, r.Message)
	}
}

// stuck is a file system whose logs can't be made durable for a while, or fail then.
type stuck struct {
	closed  atomic.Bool // nothing passes
	waiting atomic.Int64
	pass    chan error // one for each that waits
}

func (s *stuck) fileSystem() vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !s.closed.Load() || !strings.HasSuffix(op.Path, ".log") || op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
			return nil
		}
		s.waiting.Add(1)
		return <-s.pass
	}))
}

func TestWhatWaitsForTheDiskIsAnswered(t *testing.T) {
	for name, failure := range map[string]error{"": nil, "which fails": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			s := &stuck{pass: make(chan error)}
			c := newCluster(t, 1, Options{}, storage.Options{FileSystem: s.fileSystem()})
			s.closed.Store(true)
			answers := make(chan register.Result, 1)
			c.submit(0, register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")}, 0, answers)
			eventually(t, "the disk is waited for", func() bool { return s.waiting.Load() == 1 })
			s.closed.Store(false)
			type outcome struct {
				handovers []*Handover
				err       error
			}
			ended := make(chan outcome)
			r := c.replicas[0]
			c.replicas[0] = nil
			go func() {
				carried, _, err := r.HandOver()
				ended <- outcome{carried, err}
			}()
			eventually(t, "it stops", func() bool {
				select {
				case <-r.stopping.Done():
					return true
				default:
					return false
				}
			})
			if len(answers) > 0 {
				t.Fatal("it was answered before it was durable")
			}
			s.pass <- failure
			o := <-ended
			answer := <-answers
			want := register.OK
			if failure != nil {
				want = register.Unknown
			}
			if answer.Status != want || len(o.handovers) > 0 || (o.err == nil) != (failure == nil) {
				t.Errorf("it ended as %s, %d are carried over, %v", answer.Status, len(o.handovers), o.err)
			}
		})
	}
}
