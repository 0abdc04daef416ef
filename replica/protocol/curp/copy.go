package curp

import (
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/curp/store"
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
	p.store.Wipe()
	clear(p.follower.waiting)
	p.follower.attached, p.follower.copyOp = false, 0
	p.store.Own.Copying, p.store.Own.Cursor, p.store.Own.Start, p.store.Own.Through = true, nil, 0, 0
}

// tickCopy asks for the next page.
func (p *Protocol) tickCopy() {
	f := &p.follower
	if f.waits || !p.store.Own.Copying || f.copyOp != 0 && p.now < f.copyDue || p.now < f.fetched {
		return
	}
	f.copyOp, f.copyDue = p.Op(), p.now.Add(p.config.Retry)
	p.send(p.partition.Master, p.message(peerv1.Kind_COPY, f.copyOp, &peerv1.Curp{
		After: p.store.Own.Cursor, Start: p.store.Own.Start, Nonce: p.config.Nonce,
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
	reply := &peerv1.Curp{Start: c.Start, After: c.After}
	if len(c.After) == 0 {
		reply.Start = p.store.Own.Applied
		f.known, f.held, f.next, f.lacking, f.nonce = true, reply.Start, reply.Start, true, c.Nonce
	}
	if reply.Start < p.store.Floor {
		reply.Refused, reply.Done = true, true // begin again: the log behind the first page is not kept any more
		p.sendDurably(from, p.message(peerv1.Kind_COPY_PAGE, m.Op, reply))
		return
	}
	reply.Records, reply.Done = p.store.Page(c.After, pageBytes)
	reply.Last = p.store.Own.Applied
	reply.History = p.store.HistoryUpTo(reply.Start)
	reply.WholeTerm, reply.WholeIndex = p.store.Own.WholeTerm, p.store.Own.WholeIndex
	p.sendDurably(from, p.message(peerv1.Kind_COPY_PAGE, m.Op, reply))
}

func (p *Protocol) onCopyPage(from view.MemberID, m *peerv1.Message) {
	f := &p.follower
	c := m.Curp
	if from != p.partition.Master || !p.active() || f.waits || !p.store.Own.Copying || m.Op != f.copyOp || f.copyOp == 0 {
		return
	}
	f.copyOp = 0
	if c.Refused {
		p.beginCopy()
		return
	}
	if len(p.store.Own.Cursor) == 0 {
		p.store.Own.Start = c.Start
		p.store.Log = store.Log{Floor: c.Start, History: c.History}
		p.store.Own.Applied, p.store.Commit, p.store.Own.Commit = c.Start, c.Start, c.Start
	}
	size := p.store.Adopt(c.Records)
	if n := len(c.Records); n > 0 {
		p.store.Own.Cursor = c.Records[n-1].Key
	} else if len(p.store.Own.Cursor) == 0 {
		p.store.Own.Cursor = store.BeforeState // of an empty state
	}
	if rate := p.config.TransferRate; rate > 0 {
		f.fetched = p.now.Add(time.Duration(size) * time.Second / time.Duration(rate))
	}
	if c.Done {
		p.config.Took("copy.end")
		p.store.Own.Copying, p.store.Own.Through = false, c.Last
		p.learnCommit(p.store.Commit)
		p.noteWhole(c)
	}
	p.store.Note()
	p.tickCopy()
}
