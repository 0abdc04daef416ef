package instance

import (
	"bytes"
	"cmp"
	"container/list"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// store has the instances that this member has not executed, by key, and each key's state after those that it has.
type store struct {
	*base.Base // of the protocol
	options    Options
	author     register.Writer // of the first lane's instances: it outlives restarts, since their numbers are durable

	objects map[string]*object // keys with instances in progress, and those that rest
	resting []rest             // by when they came to rest
	rested  int                // their bytes
	live    *list.List         // instances, oldest first

	slots    slots
	restored int // instances that the process began with and has not executed

	made     slab.Of[instance]
	began    slab.Of[coordination]
	requests slab.Of[request]

	parts slab.Of[peerv1.Instance]
	ids   slab.Of[peerv1.InstanceID]
	named slab.List[*peerv1.InstanceID]
}

// name is an instance's ID for a message.
func (p *store) name(id instanceID) *peerv1.InstanceID {
	named := p.ids.New()
	named.Writer, named.Number = uint64(id.writer), id.number
	return named
}

func (p *store) names(v vector) []*peerv1.InstanceID {
	for _, id := range v {
		p.named.Add(p.name(id))
	}
	return p.named.Take()
}

// Objects with nothing in progress rest within a bound before they are forgotten: the next command of a key
// often comes soon, and a late answer of the latest one almost always.
const (
	restingBytes = 1 << 20
	objectBytes  = 1 << 10 // about what one takes beside its state
)

func (p *store) object(key []byte) *object {
	o := p.objects[string(key)]
	if o == nil {
		o = &object{key: bytes.Clone(key)}
		o.state, o.size = p.loadState(key)
		p.objects[string(key)] = o
	}
	return o
}

// letRest lets an object rest if nothing is in progress, and forgets the ones that have rested longest: their
// states are on disk.
func (p *store) letRest(o *object) {
	if o.resting || !o.idle() {
		return
	}
	o.resting = true
	p.resting = append(p.resting, rest{o, objectBytes + o.size})
	p.rested += objectBytes + o.size
	for p.rested > restingBytes || p.tooMany(len(p.resting)) {
		oldest := p.resting[0]
		p.resting[0] = rest{}
		p.resting = p.resting[1:]
		p.rested -= oldest.bytes
		oldest.resting = false
		if oldest.idle() {
			delete(p.objects, string(oldest.key))
		}
	}
}

// tooMany reports whether so many objects rest that the tuning does not allow them.
func (p *store) tooMany(resting int) bool {
	most := p.Config.Tuning.Resting
	return most > 0 && resting > most
}

// rest is an object that rests, or did until a command came.
type rest struct {
	*object
	bytes int
}

// instance returns what is known of an instance that is not executed here, and starts to know of it.
func (p *store) instance(o *object, id instanceID) *instance {
	if i := o.find(id); i != nil {
		return i
	}
	i := p.made.New()
	i.object, i.id, i.since = o, id, p.Config.View.Epoch
	i.element = p.live.PushBack(i)
	p.scheduleRecovery(i)
	at, _ := slices.BinarySearchFunc(o.instances, id, func(i *instance, id instanceID) int {
		return cmp.Or(cmp.Compare(i.id.writer, id.writer), cmp.Compare(i.id.number, id.number))
	})
	o.instances = slices.Insert(o.instances, at, i)
	return i
}

// forget drops an instance that is executed: what it did is in the key's state. What a coordination still has to
// tell keeps it among the live ones.
func (p *store) forget(i *instance) {
	i.forgotten = true
	if i.restored {
		i.restored = false
		p.restored--
	}
	if i.coordination == nil {
		p.live.Remove(i.element)
	}
	i.object.instances = slices.DeleteFunc(i.object.instances, func(j *instance) bool { return i == j })
	if i.slot != nil {
		i.kept = i.status >= peerv1.Status_PRE_ACCEPTED && p.Journal.Durable(i.slot)
		p.leaveSlot(i)
	}
}

// seqOf is EPaxos' seq: above that of every instance that this replica has heard of, interferes, and is no read. A read
// is answered when all that can come before it is known, so nothing needs to be told that it comes after one.
func (p *store) seqOf(i *instance) uint64 {
	if p.options.Registers != nil {
		return 0
	}
	o := i.object
	seq := o.state.Seq
	for _, j := range o.instances {
		if j != i && !j.reads() && !(j.id.writer == i.id.writer && j.id.number > i.id.number) {
			seq = max(seq, j.seq)
		}
	}
	return seq + 1
}

// message begins a message about an instance.
func (p *store) message(kind peerv1.Kind, op uint64, o *object, id instanceID) *peerv1.Message {
	m := p.Message(kind, op, o.key)
	m.Instance = p.parts.New()
	m.Instance.Id = p.name(id)
	return m
}

// about tells of an instance. It is made anew for each sending.
func (p *store) about(i *instance, kind peerv1.Kind) *peerv1.Message {
	m := p.message(kind, 0, i.object, i.id)
	m.Instance.Ballot, m.Instance.AcceptedBallot = i.ballot, i.accepted
	m.Instance.Status, m.Instance.Agreed = i.status, i.agreed
	m.Instance.Deps, m.Instance.Seq, m.Instance.Commands = p.names(i.deps), i.seq, i.commands
	wire.Put(m, i.base)
	return m
}

// load is the register that commands are based on, if there is one beside them.
func (p *store) load(key []byte) (base register.Versioned) {
	if p.options.Registers != nil {
		base = p.options.Registers.Load(key)
	}
	return base
}

func (p *store) apply(key []byte, v register.Versioned) {
	if p.options.Registers != nil {
		p.options.Registers.Apply(key, v)
	}
}

// lane is the writer of this member's instances in a lane, from 0.
func (p *store) lane(k int) register.Writer { return p.author + register.Writer(k) }

// isMine reports whether this disk of this member proposed an instance.
func (p *store) isMine(id instanceID) bool {
	return id.writer >= p.author && id.writer < p.lane(p.options.Lanes)
}

// took counts a path of commands.
func (p *store) took(path string) {
	if p.Config.Count != nil {
		p.Took(p.options.Commands + "." + path)
	}
}

// query asks what a member knows of an instance, and to promise it to a ballot. With ballot 0 nobody promises anything:
// who has executed the instance says what came of it.
func (p *store) query(i *instance, op, ballot uint64) *peerv1.Message {
	m := p.message(peerv1.Kind_PREPARE, op, i.object, i.id)
	m.Instance.Ballot = ballot
	return m
}

// enter begins a phase with a new question: answers to the one before no longer count.
func (p *store) enter(d *coordination, s phase) {
	d.phase, d.op = s, p.Op()
	d.asked.Restart()
	d.replies = nil
}

// scheduleRecovery sets when to recover an instance that makes no progress here. Members take turns by their
// distance from the coordinator, and draw a delay, so that recoveries seldom duel. With each duel of the key they wait
// twice as long: where a quorum answers later than members wait, such as with slow disks, nobody would come to an end.
func (p *store) scheduleRecovery(i *instance) {
	n := p.Config.View.Size()
	author := p.Config.View.Index(view.MemberID(i.id.writer.Member()))
	rank := (p.Config.View.Index(p.Config.Self) - author + n) % n
	wait := p.Config.Suspect
	if i.status == peerv1.Status_HEARD || p.isOld(i) {
		wait = 2 * p.Config.Retry // something committed waits for it, or a change of the view does
	}
	window := p.Config.Retry
	if i.object.duels > 0 {
		window <<= i.object.duels
		wait += window
	}
	wait += time.Duration(rank)*p.Config.Retry + time.Duration(p.Draws.Below(uint64(window)))
	i.recoverAt = p.Now.Add(wait)
}

// mostDuels is how many duels of a key count: its recoveries wait for 64 times Config.Retry longer.
const mostDuels = 6

// duelled counts a recovery that another one overtook.
func (o *object) duelled() { o.duels = min(o.duels+1, mostDuels) }

// yield lets another member's recovery go first. A coordinator that has promised must not commit on the fast
// path any more: the recovery takes it for a member that never will. Nor may an older Accept be repeated once
// the instance has taken the attributes of a higher ballot.
func (p *store) yield(i *instance) {
	d := i.coordination
	if d != nil && d.ballot > 0 && (d.phase == preparing || d.phase == validating || d.phase == accepting) {
		i.object.duelled()
	}
	p.scheduleRecovery(i)
	switch {
	case d == nil || d.phase == committed:
	case d.own:
		d.overtaken = true
		p.enter(d, preempted)
	default:
		i.coordination = nil
	}
}

// sameDisk reports whether a writer still has the disk that it wrote with. Its next one knows nothing of what
// the lost one may have committed.
func (p *store) sameDisk(w register.Writer) bool {
	return uint32(p.Incarnations.Of(view.MemberID(w.Member())))&0xffff == w.Incarnation()
}

// tellExecuted says that an instance is executed here, and what it answered if that is still known. A member
// that asked for a vote is behind and gets the key's state: the instance itself is gone.
func (p *store) tellExecuted(o *object, id instanceID, to view.MemberID, op uint64, state bool) {
	p.SendDurably(to, p.executedMessage(o, id, op, state))
}

func (p *store) executedMessage(o *object, id instanceID, op uint64, state bool) *peerv1.Message {
	m := p.message(peerv1.Kind_EXECUTED, op, o, id)
	if e := o.execution(id.writer); idOf(e.GetId()) == id {
		m.Instance.Answers = e.Answers
	}
	if state {
		m.Instance.State, o.shared = o.state, true
	}
	return m
}

// isOld reports whether an instance was known in an earlier view: someone may have voted on it there.
func (p *store) isOld(i *instance) bool { return i.since < p.Config.View.Epoch }

// placeOf counts this member's instances of a key over its lanes, and instanceAt is the other way round.
func (p *store) placeOf(id instanceID) uint64 {
	return id.number*uint64(p.options.Lanes) + uint64(id.writer-p.author)
}

func (p *store) instanceAt(place uint64) instanceID {
	lanes := uint64(p.options.Lanes)
	return instanceID{p.lane(int(place % lanes)), place / lanes}
}
