package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// coordinator is the part of CURP's client (section 3.2.1): of the operations that are submitted to this member.
type coordinator struct {
	*member
	master     *master // this member's own
	backup     *backup
	operations base.Operations[*operation]
	session    uint64 // of updates that begin here without an id; 0 before there is one
	last       uint64 // the last number of it
	fast, slow uint64
	near       view.MemberID        // the witness at this member's site; 0: none
	latest     map[string]completed // by key: the update that was complete here last, in this term
	// Up to where all backups held the log when the master answered the last read: answers from here are no older.
	seen uint64
}

// completed is an update that is complete once the journal's mark is durable.
type completed struct {
	id   requestID
	mark uint64
}

// operation is a read or an update that is submitted here.
type operation struct {
	base.Operation
	due protocol.Instant // when to ask again

	update  *peerv1.Request // nil: a read
	raw     []byte          // of the update, as witnesses save it; nil: it is not recorded
	minted  bool            // its id is of the coordinator's session
	follows requestID       // an update of the key that was complete before this one began; none: 0
	saved   []view.MemberID // witnesses that saved the request
	answer  *peerv1.Answer  // what the master said it made of it, and would lose with its backups not knowing
	syncing bool            // the master is asked to sync

	checking bool // a read that asks the witness before it reads here
}

func newCoordinator(master *master, backup *backup) *coordinator {
	c := &coordinator{
		member: master.member, master: master, backup: backup, latest: map[string]completed{},
	}
	view := &c.Config.View
	site := view.Members[view.Index(c.Config.Self)].Site
	for _, id := range c.partition.Witnesses {
		if w, _ := view.Witness(id); w.Site == site && c.near == 0 {
			c.near = id
		}
	}
	return c
}

// finish ends an operation. What this member's own disk does not have yet, as the master, may be what the answer tells
// of.
func (c *coordinator) finish(o *operation, r register.Result) {
	c.operations.End(o)
	durable := c.partition.Master != c.Config.Self || o.update == nil && c.master.tellable() ||
		r.Fast && c.speculative()
	c.CompleteWhen(durable, o.Request.Handle, r)
}

// answered is the result that an answer stands for.
func answered(a *peerv1.Answer, trips int, fast bool) register.Result {
	switch {
	case a.GetExpired():
		return register.Result{Status: register.Unknown, RoundTrips: trips,
			Message: "the operation may be the duplicate of one whose answer is forgotten; it was not executed again"}
	case a.GetRefused() != "":
		return register.Result{Status: register.Failed, Message: a.Refused, RoundTrips: trips, Fast: fast}
	}
	return register.Result{
		Status: register.OK, Value: register.ValueOf(a.GetPresent(), a.GetValue()), RoundTrips: trips, Fast: fast,
		Carstamp: register.Carstamp{Timestamp: a.GetTimestamp()},
	}
}
