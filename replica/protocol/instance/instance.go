package instance

import (
	"cmp"
	"container/list"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// instanceID names an instance of a key: the writer's number-th, counting from 1 without gaps.
type instanceID struct {
	writer register.Writer
	number uint64
}

func idOf(id *peerv1.InstanceID) instanceID {
	return instanceID{register.Writer(id.GetWriter()), id.GetNumber()}
}

// vector is a set of instances of one key, closed downwards: per writer all up to a number. It is sorted by
// writer. Dependencies are vectors: an instance of a writer always depends on the writer's earlier ones.
type vector []instanceID

func (v vector) of(w register.Writer) uint64 {
	for _, id := range v {
		if id.writer == w {
			return id.number
		}
	}
	return 0
}

// copyFor is a copy with room for more.
func (v vector) copyFor(more int) vector { return append(make(vector, 0, len(v)+more), v...) }

// add joins v with one instance and all before it of the writer.
func (v *vector) add(id instanceID) {
	if id.number == 0 {
		return
	}
	at, found := slices.BinarySearchFunc(*v, id, func(a, b instanceID) int { return cmp.Compare(a.writer, b.writer) })
	switch {
	case !found:
		*v = slices.Insert(*v, at, id)
	case (*v)[at].number < id.number:
		(*v)[at] = id
	}
}

// with is v if it has an instance, or a copy joined with it and all before it of the writer.
func (v vector) with(id instanceID) vector {
	if v.of(id.writer) >= id.number {
		return v
	}
	v = v.copyFor(1)
	v.add(id)
	return v
}

// join is v if it has all of w, or a copy joined with w.
func (v vector) join(w vector) vector {
	if !slices.ContainsFunc(w, func(id instanceID) bool { return v.of(id.writer) < id.number }) {
		return v
	}
	v = v.copyFor(len(w))
	for _, id := range w {
		v.add(id)
	}
	return v
}

func vectorOf(ids []*peerv1.InstanceID) vector {
	v := make(vector, 0, len(ids))
	for _, id := range ids {
		v.add(idOf(id))
	}
	return v
}

// attributes are what the members agree on for an instance (Gryff, figure 4). Of base and seq a protocol has one: see
// Options.Registers and execute.go.
type attributes struct {
	commands []*peerv1.Command // none: a no-op
	deps     vector
	base     register.Versioned
	seq      uint64
}

// reads reports whether the commands are known to change nothing.
func (a *attributes) reads() bool {
	return len(a.commands) > 0 && !slices.ContainsFunc(a.commands, func(c *peerv1.Command) bool {
		return c.Kind != peerv1.CommandKind_READ_COMMAND
	})
}

// changes reports whether the commands may change something: they are there, and not all reads.
func (a *attributes) changes() bool { return len(a.commands) > 0 && !a.reads() }

// join adds what another member knows.
func (a *attributes) join(b *attributes) {
	a.deps, a.seq = a.deps.join(b.deps), max(a.seq, b.seq)
	if a.base.Carstamp.Less(b.base.Carstamp) {
		a.base = b.base
	}
}

// sameAs reports whether two members have the same attributes for an instance, of which the commands never differ.
func (a *attributes) sameAs(b *attributes) bool {
	return a.base.Carstamp == b.base.Carstamp && a.seq == b.seq && slices.Equal(a.deps, b.deps)
}

// instance is a command, or a batch of them, that this replica has not executed yet.
type instance struct {
	attributes
	object   *object
	id       instanceID
	status   peerv1.Status
	ballot   uint64 // the highest promised
	accepted uint64 // the one that the attributes were last accepted in
	// agreed says that this member has agreed to a commit of these attributes on the fast path, so that recovery must keep
	// them: the coordinator may have committed with them. They are the initial attributes, that is, those of PreAccept as
	// its coordinator sent it, or, where one fast quorum is asked alone, those that it made of them (merges).
	agreed    bool
	noted     *vote  // what this member told of it before it accepted it (keepVote)
	since     uint64 // the epoch in which this member, or one whose state it took, first knew of it; 0: unknown
	slot      []byte // the key of its record; nil: it has none
	size      int    // of the record
	restored  bool   // the process began with it: it may have executed what it forgot since (store.awaits)
	kept      bool   // it is executed, and if a crash takes that back, the disk still has the record of it
	silent    bool   // this member has not voted on it: nobody waits to hear that it is executed here, until they ask
	forgotten bool   // executed and dropped from the object; the coordination alone still refers to it
	element   *list.Element
	alone     [1]*instance `digest:"-"` // itself, where it is a component of the graph

	reportTo     view.MemberID    // the sender of Commit, which counts executions
	coordination *coordination    // nil: this member neither proposed the instance nor recovers it
	seen         uint64           // the highest ballot heard of
	recoverAt    protocol.Instant // unless the instance has ended, this member recovers it then
}

// object is what the commands of one key are about.
type object struct {
	key       []byte
	state     *peerv1.KeyState // what the instances that are executed have made of the key; its fields are explained there
	instances []*instance      // by (writer, number)
	mine      []*coordination  // what this member proposed and has not finished, at most one for each lane
	queue     []*request
	shared    bool // a message refers to the state, or to parts of it
	size      int  // of the state's record
	resting   bool // it is in store.resting
	duels     int  // recoveries that another one overtook, less the instances executed since: see scheduleRecovery
}

// idle reports whether nothing is in progress: commands wait only while each lane has one that is.
func (o *object) idle() bool { return len(o.instances) == 0 && len(o.mine) == 0 }

func (o *object) find(id instanceID) *instance {
	for _, i := range o.instances {
		if i.id == id {
			return i
		}
	}
	return nil
}

// executed is the number of the writer's latest instance that is executed here.
func (o *object) executed(w register.Writer) uint64 {
	return o.execution(w).GetId().GetNumber()
}

func (o *object) execution(w register.Writer) *peerv1.Executed {
	return executionIn(o.state, uint64(w))
}

// number is that of the writer's latest instance that this replica has heard of.
func (o *object) number(w register.Writer) uint64 {
	n := o.executed(w)
	for _, i := range o.instances {
		if i.id.writer == w {
			n = max(n, i.id.number)
		}
	}
	return n
}

// depsOf is every instance that this replica has heard of and that interferes with one, I_cmd of algorithms 3 and 4,
// less the instance itself and what its own writer issued later. All interfere but reads with reads. A read that is
// executed here needs nobody to come after it: whatever it depends on is committed, and its coordinator may return that
// or something newer.
//
// With known, what this replica knows by name alone is left out, and so are no-ops that are not executed here.
func (o *object) depsOf(i *instance, known bool) vector {
	reads := i.reads()
	v := make(vector, 0, len(o.state.Executed)+len(o.instances))
	for _, e := range o.state.Executed {
		id := idOf(e.GetId())
		id.number -= e.Reads
		v.add(id)
	}
	for _, j := range o.instances {
		if (!reads || !j.reads()) && (!known || j.known()) {
			v.add(j.id)
		}
	}
	return cut(v, i.id)
}

// cut changes v.
func cut(v vector, id instanceID) vector {
	for k := range v {
		if v[k].writer == id.writer {
			v[k].number = id.number - 1
		}
	}
	return slices.DeleteFunc(v, func(d instanceID) bool { return d.number == 0 })
}

// adopt takes the attributes of a message.
func (i *instance) adopt(m *peerv1.Message) {
	i.attributes = attributesOf(m)
}

func attributesOf(m *peerv1.Message) attributes {
	return attributes{commands: m.Instance.Commands, deps: vectorOf(m.Instance.Deps), base: wire.Of(m), seq: m.Instance.Seq}
}
