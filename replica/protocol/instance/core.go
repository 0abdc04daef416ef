// Package instance orders the commands of each key by instances of consensus that name each other as dependencies: the
// core of EPaxos (SOSP '13), on which EPaxos and Gryff's rmws are built. Comments cite Gryff's algorithms 3 to 6, which
// are EPaxos' with a base added; docs/protocols.md explains what differs.
//
// A member has several parts in it. Acceptor, executor and clients know the store, the coordinator and the recovery all
// that stand before them:
//
//   - store (store.go): the instances that are not executed yet, by key, and their records on disk
//   - acceptor (replica.go): it votes, and adds the dependencies that it knows of (algorithms 4 and 6)
//   - executor (execute.go): it executes what is committed in the order of the dependencies (algorithm 4)
//   - clients (clients.go): the requests of this member's clients, and their answers
//   - coordinator (coordinator.go): it proposes the commands of a key in instances (algorithm 3), and commits them by the
//     rules of fast.go
//   - recovery (recover.go): it brings an instance to its end that somebody waits for too long (algorithm 5); where what
//     it heard does not tell, it looks at what interferes (validate.go)
//
// Core is the whole: messages and time, and what goes on over changes of the view (resume.go).
package instance

import (
	"container/list"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Options are what the protocols that are built on instances differ in.
type Options struct {
	// Commands is what the paths, as Config.Count is told, call commands.
	Commands string
	// Registers is where reads and writes go that are no commands. An rmw is then based on what its coordinator finds
	// there, and it is answered when a quorum has executed it, lest a read that asks a quorum misses it. Nil: whatever
	// is done to a key is a command; it is answered when its coordinator knows what came of it.
	Registers *Registers
	// Lanes is how many instances of a key a coordinator may have in progress, at most 256; 0 stands for 1. Each lane
	// has a writer of its own, whose instances follow each other.
	Lanes int
}

// Registers are a member's copies of the registers, with the values that writes have left there.
type Registers struct {
	Load  func(key []byte) register.Versioned
	Apply func(key []byte, v register.Versioned) // the larger carstamp stays
}

// Core is one member's part, for one shard.
type Core struct {
	recovery
	ticked bool // Now is known
}

// New goes on with what the journal holds, as a part of a protocol.
func New(b *base.Base, options Options) *Core {
	options.Lanes = max(options.Lanes, 1)
	s := &store{
		Base:    b,
		options: options,
		author:  b.Author(),
		objects: map[string]*object{},
		live:    list.New(),
	}
	b.Incarnations.SizeFast(s.fastQuorum(b.Config.View))
	s.loadInstances()
	return &Core{recovery: recovery{coordinator{s, acceptor{s}, executor{store: s}, clients{s}}}}
}

// Submit starts an operation, as a command. Its kind and its function are known.
func (p *Core) Submit(r protocol.Request) {
	if done, resumed := r.Resume.(Resume); resumed {
		p.resume(r, done)
		return
	}
	o := p.object([]byte(r.Operation.Key))
	q := p.requests.New()
	q.Request = r
	o.queue = append(o.queue, q)
	p.propose(o)
	p.letRest(o)
}

// Receive handles a message that concerns an instance, and nothing else.
func (p *Core) Receive(from view.MemberID, m *peerv1.Message) {
	if m.GetInstance().GetId().GetNumber() == 0 {
		return
	}
	o := p.object(m.Key)
	switch m.Kind {
	case peerv1.Kind_PRE_ACCEPT, peerv1.Kind_ACCEPT, peerv1.Kind_PREPARE, peerv1.Kind_VALIDATE:
		p.onQuestion(o, from, m)
	case peerv1.Kind_PRE_ACCEPT_OK, peerv1.Kind_ACCEPT_OK, peerv1.Kind_PREPARE_OK, peerv1.Kind_VALIDATE_OK,
		peerv1.Kind_NACK:
		p.onAnswer(o, from, m)
	case peerv1.Kind_COMMIT:
		p.onCommit(o, from, m)
	case peerv1.Kind_EXECUTED:
		p.onExecuted(o, from, m)
	}
	p.letRest(o)
}

// Tick tells the time: what was not answered is asked again, what is past its deadline is given up, and what others
// left unfinished is recovered.
func (p *Core) Tick(now protocol.Instant) {
	p.Now = now
	if !p.ticked {
		p.ticked = true
		p.takeUp()
	}
	for e := p.live.Front(); e != nil; {
		i := e.Value.(*instance)
		e = e.Next()
		p.tickInstance(i)
		p.letRest(i.object)
	}
}

// Awaits reports whether this member can't speak for a key's register now. It began with an instance of the key that
// the process before it may have executed, and told of, before that was durable; it executes it again first.
func (p *Core) Awaits(key []byte) bool { return p.awaits(key) }

// Knows reports whether the state of a key is in memory.
func (p *Core) Knows(key []byte) bool { return p.objects[string(key)] != nil }

// Pending is how many instances are unfinished here.
func (p *Core) Pending() int { return p.live.Len() }
