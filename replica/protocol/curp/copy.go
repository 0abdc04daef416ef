package curp

import (
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/view"
)

// A learner, or a backup whose state has what its master never had, copies the master's state page by page while the
// log goes on. The pages are of different moments; but entries set whole records, so that the log behind the first
// moment, applied in its order, makes of them the state at its end. Until then the copy counts for nothing.

// beginCopy drops what is here. No page is under way: one is asked for only while the state is copied.
func (b *backup) beginCopy() {
	b.Took(pathCopyBegin)
	b.store.Wipe()
	clear(b.unapplied)
	own := b.store.Own
	own.Copying, own.Cursor, own.Start, own.Through = true, nil, 0, 0
}

// tickCopy asks for the next page. Asked for again, it is the same question: a master whose disk takes longer than Retry
// answers it once that was sent.
func (b *backup) tickCopy() {
	own := b.store.Own
	if b.waiting || !own.Copying || b.Now < b.pageAt {
		return
	}
	if b.pageOp == 0 {
		b.pageOp = b.Op()
	}
	b.pageAt = b.Now.Add(b.Config.Retry)
	b.send(b.partition.Master, b.message(peerv1.Kind_COPY, b.pageOp, &peerv1.Curp{
		After: own.Cursor, Start: own.Start, Nonce: b.Config.Nonce,
	}))
}

// onCopyPage puts a page of the master's state into this one.
func (b *backup) onCopyPage(from view.MemberID, m *peerv1.Message) {
	s, c := b.store, m.Curp
	if from != b.partition.Master || !b.active() || b.waiting || !s.Own.Copying || m.Op != b.pageOp || b.pageOp == 0 {
		return
	}
	b.pageOp, b.pageAt = 0, 0
	if c.Refused {
		b.beginCopy()
		return
	}
	if len(s.Own.Cursor) == 0 {
		s.Own.Start = c.Start
		s.Log = store.Log{Floor: c.Start, History: c.History}
		s.Own.Applied, s.Commit, s.Own.Commit = c.Start, c.Start, c.Start
		s.Own.Cursor = store.BeforeState // of an empty state
	}
	size := s.Adopt(c.Records)
	if n := len(c.Records); n > 0 {
		s.Own.Cursor = c.Records[n-1].Key
	}
	if rate := b.Config.TransferRate; rate > 0 {
		b.pageAt = b.Now.Add(time.Duration(size) * time.Second / time.Duration(rate))
	}
	if c.Done {
		b.Took(pathCopyEnd)
		s.Own.Copying, s.Own.Through = false, c.Last
		b.learnCommit(s.Commit)
		b.noteRecovered(c)
	}
	s.Note()
	b.tickCopy()
}
