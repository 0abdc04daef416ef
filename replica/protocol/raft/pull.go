package raft

import (
	"bytes"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/view"
)

// Bounds of a page.
const (
	pageBytes   = 256 << 10 // sent, give or take one record
	pageRecords = 4096      // looked at
	patience    = 4         // how often a page is asked for in vain
)

// pull fetches from another member what entries have changed that are not in its log any more. It is no copy of one
// moment: each record is the state after the answerer's first page, or later. Entries that come after that leave alone
// what is ahead.
type pull struct {
	from        view.MemberID
	incarnation view.Incarnation
	op          uint64
	after       []byte
	above       uint64 // what earlier entries made is here
	least       uint64
	applied     *peerv1.RaftApplied
	snapshot    *raftpb.Message // what the leader said; nil: of a newcomer
	due         protocol.Instant
	vain        int
}

// behindLog is told by a leader that its log does not reach back to this member's.
func (p *Protocol) behindLog(from view.MemberID, r *raftpb.Message) {
	index := r.GetSnapshot().GetMetadata().GetIndex()
	switch s := p.node.BasicStatus(); {
	case r.GetTerm() < s.HardState.GetTerm():
	case index <= max(s.HardState.GetCommit(), p.state.Index):
		if p.node.Step(r) == nil { // which tells the leader how far this member is
			p.follow(from, r)
		}
	case p.pull == nil:
		p.Took(pathPull)
		p.beginPull(from, p.state.Index, index, r)
	}
}

func (p *Protocol) beginPull(from view.MemberID, above, least uint64, snapshot *raftpb.Message) {
	p.pull = &pull{
		from: from, incarnation: p.Incarnations.Of(from), op: p.Op(), above: above, least: least, snapshot: snapshot,
	}
	p.askPage()
}

func (p *Protocol) askPage() {
	q := p.pull
	q.due = p.Now.Add(p.Config.Retry << min(q.vain, 2))
	raw, err := (&peerv1.RaftPull{After: q.after, Above: q.above, Least: q.least}).MarshalVT()
	if err != nil {
		p.Fault("encode a question for a page: %w", err)
		return
	}
	m := p.Message(peerv1.Kind_RAFT_PULL, q.op)
	m.Raft = raw
	p.Send(q.from, m)
}

func (p *Protocol) tickPull() {
	q := p.pull
	switch {
	case q == nil:
	case q.incarnation != p.Incarnations.Of(q.from) || q.vain >= patience:
		p.pull = nil // whoever leads says so again
	case p.Now >= q.due:
		q.vain++
		p.askPage()
	}
}

// onPull answers with a page. It leaves when all that it tells is durable.
func (p *Protocol) onPull(from view.MemberID, m *peerv1.Message) {
	asked := &peerv1.RaftPull{}
	if asked.UnmarshalVT(m.Raft) != nil || p.state.Index < asked.Least {
		return
	}
	page := &peerv1.RaftPage{After: asked.After, Last: true}
	if len(asked.After) == 0 {
		page.Applied = p.state
	}
	after := append([]byte{stateRecord}, asked.After...)
	seen, size := 0, 0
	p.Journal.Scan(after, func(key, raw []byte) bool {
		if key[0] != stateRecord {
			return false
		}
		if seen >= pageRecords || size >= pageBytes {
			page.Last = false
			return false
		}
		seen++
		page.Until = append(page.Until[:0], key[1:]...)
		state, err := decodeState(raw, bounds.Record)
		if err != nil {
			p.Fault("the state of %q on disk is damaged: %w", key[1:], err)
			return false
		}
		if state.GetPrevious().GetTimestamp() > asked.Above {
			size += len(key) + len(raw)
			page.Records = append(page.Records, &peerv1.KeyRecord{Key: bytes.Clone(key[1:]), State: bytes.Clone(raw)})
		}
		return true
	})
	raw, err := page.MarshalVT()
	if err != nil {
		p.Fault("encode a page: %w", err)
		return
	}
	reply := p.Message(peerv1.Kind_EXECUTED, m.Op)
	reply.Raft = raw
	p.SendDurably(from, reply)
}

// onExecuted takes a page, or what a newcomer asked for.
func (p *Protocol) onExecuted(from view.MemberID, m *peerv1.Message) {
	q := p.pull
	if q == nil || q.op != m.Op {
		p.settleFrom(from, m)
		return
	}
	page := &peerv1.RaftPage{}
	if err := page.UnmarshalVT(m.Raft); err != nil {
		p.Refuse(from, fmt.Errorf("decode a page of its state: %w", err))
		return
	}
	if !bytes.Equal(page.After, q.after) || q.from != from || !p.knowsMe(m) || !page.Last && bytes.Compare(page.Until, q.after) <= 0 {
		return
	}
	if err := checkPage(page); err != nil {
		p.Refuse(from, fmt.Errorf("a page of its state is refused: %w", err))
		return // it is no answer: whoever leads is asked
	}
	if len(q.after) == 0 {
		q.applied = page.Applied
	}
	for _, r := range page.Records {
		if err := p.merge(r.Key, r.State); err != nil {
			p.Fault("%w", err) // it was checked
		}
	}
	q.vain = 0
	if !page.Last {
		q.after = page.Until
		p.askPage()
		return
	}
	p.pull = nil
	if q.applied.GetIndex() < q.least {
		return // damaged
	}
	p.install(q)
	p.join.done = q.snapshot == nil
}

// checkPage reports a page that no sound member sends.
func checkPage(page *peerv1.RaftPage) error {
	if err := bounds.Told(page.Applied); err != nil {
		return err
	}
	for _, r := range page.Records {
		if _, err := decodeState(r.State, bounds.Told); err != nil {
			return fmt.Errorf("the state of %.64q: %w", r.Key, err)
		}
	}
	return nil
}

// install makes what was fetched the state, and the log begin behind it.
func (p *Protocol) install(q *pull) {
	a := q.applied
	if a.Index > p.state.Index {
		p.log.replace(a.Index, a.Term)
		p.state = a
		p.putRecord(appliedRecord, a)
		hard := p.log.hard
		if vote := hard.Vote; a.Term > hard.Term || hard.Commit < a.Index {
			if a.Term > hard.Term {
				vote = 0 // it never voted there: it would have this term
			}
			if q.snapshot == nil {
				vote = uint64(p.Config.Self)
			}
			p.log.promise(max(hard.Term, a.Term), vote, max(hard.Commit, a.Index))
		}
		p.Took(pathInstall)
		if p.extension != nil {
			p.extension.Advanced()
		}
		p.restart()
		p.lookUnseen()
		p.answerReads()
	}
	if q.snapshot != nil && p.node.Step(q.snapshot) == nil { // tells the leader
		p.follow(q.from, q.snapshot)
	}
}
