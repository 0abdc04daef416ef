package curp

import (
	"bytes"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// pageBytes bounds a page of a copy.
const pageBytes = 64 << 10

// A learner, or a backup whose state has what its master never had, copies the master's state page by page while the
// log goes on. The pages are of different moments; but entries set whole records, so that the log behind the first
// moment, applied in its order, makes of them the state at its end. Until then the copy counts for nothing.

// beginCopy drops what is here.
func (p *Protocol) beginCopy() {
	p.config.Took("copy.begin")
	p.wipe()
	p.commit = 0
	clear(p.follower.waiting)
	p.follower.attached, p.follower.copyOp = false, 0
	p.own.Copying, p.own.Cursor, p.own.Start, p.own.Through = true, nil, 0, 0
}

// tickCopy asks for the next page.
func (p *Protocol) tickCopy() {
	f := &p.follower
	if f.waits || !p.own.Copying || f.copyOp != 0 && p.now < f.copyDue || p.now < f.fetched {
		return
	}
	f.copyOp, f.copyDue = p.Op(), p.now.Add(p.config.Retry)
	p.send(p.partition.Master, p.message(peerv1.Kind_COPY, f.copyOp, &peerv1.Curp{
		After: p.own.Cursor, Start: p.own.Start, Nonce: p.config.Nonce,
	}))
}

// onCopy answers with a page of the master's state, when it is durable: what is copied is not forgotten by the master
// alone.
func (p *Protocol) onCopy(from view.MemberID, m *peerv1.Message) {
	f := p.followerOf(from)
	if f == nil || !p.active() {
		return
	}
	c := m.Curp
	reply := &peerv1.Curp{Start: c.Start, After: c.After, Done: true}
	after := c.After
	if len(after) == 0 {
		after = beforeState
		reply.Start = p.own.Applied
		f.known, f.held, f.next, f.lacking, f.nonce = true, reply.Start, reply.Start, true, c.Nonce
	}
	if reply.Start < p.log.floor {
		reply.Refused = true // begin again: the log behind the first page is not kept any more
		p.sendDurably(from, p.message(peerv1.Kind_COPY_PAGE, m.Op, reply))
		return
	}
	size := 0
	p.journal.Scan(after, func(key, value []byte) bool {
		if size > pageBytes {
			reply.Done = false
			return false
		}
		size += len(key) + len(value)
		reply.Records = append(reply.Records, &peerv1.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		return true
	})
	reply.Last = p.own.Applied
	reply.History = upTo(p.log.history, reply.Start)
	reply.WholeTerm, reply.WholeIndex = p.own.WholeTerm, p.own.WholeIndex
	p.sendDurably(from, p.message(peerv1.Kind_COPY_PAGE, m.Op, reply))
}

func (p *Protocol) onCopyPage(from view.MemberID, m *peerv1.Message) {
	f := &p.follower
	c := m.Curp
	if from != p.partition.Master || !p.active() || f.waits || !p.own.Copying || m.Op != f.copyOp || f.copyOp == 0 {
		return
	}
	f.copyOp = 0
	if c.Refused {
		p.beginCopy()
		return
	}
	if len(p.own.Cursor) == 0 {
		p.own.Start = c.Start
		p.log = log{floor: c.Start, history: c.History}
		p.own.Applied, p.commit, p.own.Commit = c.Start, c.Start, c.Start
	}
	size := 0
	for _, r := range c.Records {
		p.journal.Put(r.Key, r.Value)
		size += len(r.Key) + len(r.Value)
		p.own.Cursor = r.Key
	}
	if len(p.own.Cursor) == 0 {
		p.own.Cursor = beforeState // of an empty state
	}
	if rate := p.config.TransferRate; rate > 0 {
		f.fetched = p.now.Add(time.Duration(size) * time.Second / time.Duration(rate))
	}
	if c.Done {
		p.config.Took("copy.end")
		p.own.Copying, p.own.Through = false, c.Last
		p.learnCommit(p.commit)
		p.noteWhole(c)
	}
	p.unsaved = true
	p.tickCopy()
}
