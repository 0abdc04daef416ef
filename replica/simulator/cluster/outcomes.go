package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
)

// notKept begins what clients are told of an update that may be the duplicate of one whose answer is forgotten: by
// members, and by those with partitions.
var notKept = []string{"the outcome is not kept any more", "the operation may be the duplicate"}

// keptForSure is the size of values, in bytes, up to which all answers of a batch are kept: 64 of them in 64 KiB.
const keptForSure = 1 << 10

// judgeOutcome judges that a client is told that the outcome of its update is not kept only where few are, and if it has
// an id, which a second attempt of it has too, only where the state of its key says so. Without an id nothing is a
// duplicate; but a member asks again, or has its batch completed by somebody else, and then long answers are not kept.
func (nd *Node) judgeOutcome(who asked, result register.Result) {
	w, op := nd.World, &who.client.Operation
	begins := func(why string) bool { return strings.HasPrefix(result.Message, why) }
	if result.Status != register.Unknown || who.client.Attempt != who.attempt || !slices.ContainsFunc(notKept, begins) {
		return
	}
	breaks := func(why string) {
		w.Breaches(fmt.Errorf("%s tells %s that the outcome of its %v of %q is not kept, %s", nd.Name(), who.client.Name,
			op.Kind, op.Key, why))
	}
	t := &w.Environment.Tuning
	if op.ID.Session == 0 {
		long := w.largest > keptForSure || w.Environment.Partitioned != nil && t.AnswerBytes != 0
		if op.Kind != register.RMW || !long {
			breaks("and it has no id, so that it is no duplicate")
		}
		return
	}
	if w.Environment.Partitioned != nil {
		return
	}
	if t.Sessions == 0 && t.SessionsFor == 0 && t.Answers == 0 && t.AnswerBytes == 0 &&
		t.AllAnswerBytes == 0 && w.largest <= keptForSure {
		breaks("though few were to be")
	}
	shard := nd.place(op.Key)
	if check.Forgotten(op.ID, op.Key, nd.Shards[shard].journal.Get) {
		return
	}
	for _, other := range w.Nodes {
		if other.Lost || other.Disks > 1 || check.Forgotten(op.ID, op.Key, other.Shards[shard].Disk.Get) {
			return // or it may have been on a disk that was lost
		}
	}
	breaks("and no state says that it was forgotten")
}

// judgeRefusal judges that nothing but an rmw is refused, since no function decides on what is read or written; and that
// the outcome of what has no effect is never unknown. No value goes back to whoever has written it.
func (nd *Node) judgeRefusal(who *asked, result register.Result) {
	switch {
	case result.Status == register.Failed && who.kind != register.RMW:
		nd.World.Breaches(fmt.Errorf("%s refuses a %v: %s", nd.Name(), who.kind, result.Message))
	case result.Status == register.Unavailable && who.known:
		nd.World.Breaches(fmt.Errorf("%s tells that a %v had no effect, and others may know of it since an earlier "+
			"view: %s", nd.Name(), who.kind, result.Message))
	case result.Status == register.Unknown && who.reads():
		nd.World.Breaches(fmt.Errorf("%s tells that the outcome of a %v is unknown, and it has no effect: %s", nd.Name(),
			who.kind, result.Message))
	case result.Status == register.OK && who.kind == register.Write && result.Value.Present():
		nd.World.Breaches(fmt.Errorf("%s answers a write with a value, which its client has", nd.Name()))
	}
}

// judgeUnfinished judges that nobody may know of what has no effect: else its client would be told that its outcome is
// unknown, if it does not go on. Of what others may know in one view, they may know in the next one, too.
func (nd *Node) judgeUnfinished(r *protocol.Request) {
	who := nd.Asked[r.Handle]
	if r.Resume == nil && who.known {
		nd.World.Breaches(fmt.Errorf("%s takes it that nobody knows of a %v, of which others may know since an "+
			"earlier view", nd.Name(), who.kind))
	}
	if r.Resume != nil && who.reads() {
		nd.World.Breaches(fmt.Errorf("%s takes it that others know of a %v, which has no effect", nd.Name(), who.kind))
	}
}

// reads reports whether it asks for what has no effect.
func (who *asked) reads() bool { return who.kind == register.Read || who.kind == register.Fence }

// serves reports whether a member takes operations on: it votes, or asks others whether it may.
func (nd *Node) serves(s *shard) bool {
	joiner, ok := s.Protocol.(protocol.Joiner)
	return ok && (joiner.Voter() || s.Protocol.Doubted())
}

// judgePatience judges that a member which takes operations on refuses none before its deadline. Fragments that restore
// no value, since a disk gives others than it has, are a reason to.
func (nd *Node) judgePatience(who *asked, result register.Result) {
	w := nd.World
	patient := who.served && nd.serves(nd.Shards[who.shard]) &&
		(w.Environment.Data == 0 || !slices.ContainsFunc(w.Nodes, func(o *Node) bool { return o.misreads }))
	early := who.deadline == 0 || nd.Clock.Read(w.Now) < who.deadline
	if result.Status == register.Unavailable && patient && early {
		w.Breaches(fmt.Errorf("%s refuses an operation before its deadline: %s", nd.Name(), result.Message))
	}
	if result.Status == register.Unknown && strings.HasPrefix(result.Message, "the view changed") && early {
		w.Breaches(fmt.Errorf("%s gives an operation up before its deadline, though it may go on in the next view: %s",
			nd.Name(), result.Message))
	}
}
