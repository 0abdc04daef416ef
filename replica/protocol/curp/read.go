package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// read begins a read: here, if this member is a backup that may answer, else at the master.
func (c *coordinator) read(o *operation) {
	stale := o.Request.Operation.Stale
	if c.role != protocol.Backup || !c.active() || c.near == 0 && !stale {
		c.readAtMaster(o)
		return
	}
	c.backup.triedRead = c.Now
	if stale {
		c.readStale(o)
	} else {
		c.readHere(o)
	}
}

// readStale ends a read that may be stale, if this member knows enough.
func (c *coordinator) readStale(o *operation) {
	if !c.backup.mayReadStale(c.seen) {
		c.Took(pathReadStaleRefused)
		c.readAtMaster(o)
		return
	}
	c.Took(pathReadStaleLocal)
	c.backup.applyTo(o.Key)
	c.finish(o, answered(c.store.Read(o.Key, c.store.Commit), o.Trips, true))
}

// readHere begins to read this backup. The witness is asked first (appendix A.1): an update that it does not have any
// more when it answers was received here before. If it were asked last, it could have dropped what came after the
// backup was read.
func (c *coordinator) readHere(o *operation) {
	if !c.backup.mayRead(o.Key) {
		c.Took(pathReadLocalRefused)
		c.readAtMaster(o)
		return
	}
	o.checking = true
	c.ask(c.near, &witnessv1.Message{
		Kind: witnessv1.Kind_CHECK, Op: o.Number, Term: c.partition.Term, Hashes: []uint64{register.Hash(o.Key)},
	})
}

// onCheckReply reads the backup, if the witness knows of no update of the key that could be complete.
func (c *coordinator) onCheckReply(from view.MemberID, w *witnessv1.Message) {
	o := c.operations.Find(w.Op)
	if o == nil || !o.checking || from != c.near {
		return
	}
	o.checking = false
	if !w.Accepted || w.Term != c.partition.Term || !c.backup.mayRead(o.Key) {
		c.Took(pathReadLocalRefused)
		o.due = c.Now.Add(c.Config.Retry)
		c.readAtMaster(o)
		return
	}
	c.Took(pathReadLocal)
	c.finish(o, answered(c.store.Read(o.Key, c.store.Commit), o.Trips, true))
}

// readAtMaster asks the master. A backup that would rather read here asks for a lease with it.
func (c *coordinator) readAtMaster(o *operation) {
	o.checking = false
	if c.partition.Master != c.Config.Self && o.Trips == 0 {
		o.Trips = 1
	}
	question := &peerv1.Curp{Stale: o.Request.Operation.Stale, Nonce: c.Config.Nonce}
	if c.backup.wantsLease() {
		question.Wanted = int64(c.Now)
	}
	m := c.message(peerv1.Kind_MASTER_READ, o.Number, question)
	m.Key = o.Key
	c.send(c.partition.Master, m)
}

// onReadReply ends a read with what the master said.
func (c *coordinator) onReadReply(m *peerv1.Message) {
	o, reply := c.operations.Find(m.Op), m.Curp
	if o == nil || o.update != nil {
		return
	}
	if reply.Refused {
		o.due = min(o.due, c.Now.Add(c.Config.Retry/4))
		return
	}
	if reply.Waited {
		o.Trips++
	}
	c.seen = max(c.seen, reply.Commit)
	c.Took(pathReadMaster)
	c.finish(o, answered(reply.Answer, o.Trips, !reply.Waited))
}
