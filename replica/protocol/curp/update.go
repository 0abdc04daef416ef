package curp

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// recordBytes is the largest request that is recorded at witnesses; a larger one waits for a sync.
const recordBytes = 2 << 10

// latestKept is of how many keys it is known which update was complete last.
const latestKept = 1 << 12

// update sends an update to the master and, at the same time, to all witnesses.
func (c *coordinator) update(o *operation) {
	c.identify(o)
	if last := c.latest[string(o.Key)]; c.Journal.Survives(last.mark) {
		o.follows = last.id
	}
	if o.raw != nil || c.partition.Master != c.Config.Self {
		o.Trips = 1
	}
	c.sendUpdate(o)
}

// sendUpdate asks the master to execute an update, and the witnesses that have not saved it to do so.
func (c *coordinator) sendUpdate(o *operation) {
	c.askMaster(o)
	if o.raw == nil {
		return
	}
	id := o.update.Command
	for _, w := range c.partition.Witnesses {
		if !slices.Contains(o.saved, w) {
			m := &witnessv1.Message{
				Kind: witnessv1.Kind_RECORD, Op: o.Number, Term: c.partition.Term, Request: o.raw,
				Id: &witnessv1.ID{Session: id.Session, Number: id.Number}, Hashes: []uint64{register.Hash(o.Key)},
			}
			if o.follows.session != 0 {
				m.Follows = &witnessv1.ID{Session: o.follows.session, Number: o.follows.number}
			}
			c.ask(w, m)
		}
	}
}

func (c *coordinator) askMaster(o *operation) {
	question := &peerv1.Curp{
		Request: o.update, Sync: o.syncing, FollowsSession: o.follows.session, FollowsNumber: o.follows.number,
	}
	m := c.message(peerv1.Kind_UPDATE, o.Number, question)
	if o.update.Command.Function != "" {
		m.Key = o.Key // the master reads its register
	}
	c.send(c.partition.Master, m)
}

// onRecordReply counts the witnesses that saved a request: all of them are needed, since recovery asks any one.
func (c *coordinator) onRecordReply(from view.MemberID, w *witnessv1.Message) {
	o := c.operations.Find(w.Op)
	switch {
	case o == nil || o.raw == nil || !slices.Contains(c.partition.Witnesses, from):
	case !w.Accepted || w.Term != c.partition.Term:
		c.Took(pathUpdateRejected)
		if !o.syncing { // the master is to answer when all backups hold the update: some witness does not
			o.syncing = true
			c.askMaster(o)
		}
	default:
		if !slices.Contains(o.saved, from) {
			o.saved = append(o.saved, from)
		}
		c.decide(o)
	}
}

// onUpdateReply takes the master's answer: it ends the update if the master has synced it.
func (c *coordinator) onUpdateReply(m *peerv1.Message) {
	o, reply := c.operations.Find(m.Op), m.Curp
	if o == nil || o.update == nil {
		return
	}
	if reply.Refused {
		c.Took(pathUpdateRefused)
		o.due = min(o.due, c.Now.Add(c.Config.Retry/4))
		return
	}
	if reply.Answer != nil && (o.answer == nil || !reply.Answer.Expired) {
		o.answer = reply.Answer
	}
	if !reply.Synced {
		c.decide(o)
		return
	}
	if reply.Waited || o.syncing && o.raw != nil { // the sync took one, or it was asked twice
		o.Trips++
	}
	c.Took(pathUpdateSynced)
	c.slow++
	c.noteCompleted(o)
	c.finish(o, answered(o.answer, o.Trips, false))
}

// decide completes an update that the master executed, and that can't be lost any more: all witnesses have it.
func (c *coordinator) decide(o *operation) {
	if o.answer == nil || o.answer.Expired || len(o.saved) < len(c.partition.Witnesses) || o.raw == nil {
		return
	}
	c.Took(pathUpdateFast)
	c.fast++
	c.noteCompleted(o)
	c.finish(o, answered(o.answer, o.Trips, true))
}

// noteCompleted notes that an update can't be lost any more: the next one of its key follows it. At the master itself
// that is so once its disk has it, as for its clients (finish).
func (c *coordinator) noteCompleted(o *operation) {
	if o.answer.GetExpired() {
		return // it may never have been executed
	}
	if len(c.latest) >= latestKept {
		clear(c.latest)
	}
	last := completed{id: idOf(o.update.Command)}
	if c.partition.Master == c.Config.Self && !c.speculative() {
		last.mark = c.Journal.Mark()
	}
	c.latest[string(o.Key)] = last
}

// identify gives an update its id, under which it is executed once, however often and in however many terms it is
// tried.
func (c *coordinator) identify(o *operation) {
	op := o.Request.Operation
	id := &peerv1.Command{
		Session: op.ID.Session, Number: op.ID.Number, FirstIncomplete: op.ID.FirstIncomplete, IssuedAt: op.ID.IssuedAt,
	}
	if op.Kind == register.RMW {
		id.Function, id.Args, id.MaxValueBytes = op.Call.Function, op.Call.Args, uint64(op.Call.MaxValueBytes)
	}
	o.update = &peerv1.Request{Key: o.Key, Command: id, Present: op.Value.Present(), Value: op.Value}
	if id.Session == 0 {
		if earlier, resumed := o.Request.Resume.(resume); resumed {
			c.Took(pathUpdateResumed)
			id.Session, id.Number, id.FirstIncomplete = earlier.session, earlier.number, earlier.firstIncomplete
		} else {
			o.minted = true
			c.mint(id)
			id.FirstIncomplete = c.firstIncomplete(id)
		}
	}
	raw := c.Encode(o.update, "a request", nil)
	switch n := len(c.partition.Witnesses); {
	case c.Config.Sync.Asynchronous && n == 0, // it is recorded by no witness
		len(raw) <= cmp.Or(c.Config.Tuning.Recorded, recordBytes) && n > 0: // they are as many as the backups
		o.raw = raw
	default:
		c.Took(pathUpdateLarge)
		o.syncing = true
	}
}

// mint makes an id of this coordinator's session. No other one has that session, of another partition or in an earlier
// view: after a split that is forgotten, what two of them have begun goes on in one partition.
func (c *coordinator) mint(id *peerv1.Command) {
	if c.session == 0 {
		c.session = max(mix(c.Config.Nonce, uint64(c.Config.Self)<<32|uint64(c.index)), 1)
	}
	c.last++
	id.Session, id.Number = c.session, c.last
}

// resume is a protocol.Resume: it holds an update's id, which the update keeps. So it keeps what it acknowledges: which
// others of its session go on too, perhaps in another partition, is not known here.
type resume struct{ session, number, firstIncomplete uint64 }

// firstIncomplete is the lowest number of the coordinator's session that it still waits for.
func (c *coordinator) firstIncomplete(id *peerv1.Command) uint64 {
	for o := range c.operations.InProgress() { // in the order of their numbers
		if o.minted {
			return o.update.Command.Number
		}
	}
	return id.Number
}

// sendAgain sends an update again to those that have not answered it. One of them is gone, so that a sync is asked for.
func (c *coordinator) sendAgain(o *operation) {
	c.Took(pathUpdateRetry)
	o.syncing = true
	c.sendUpdate(o)
}
