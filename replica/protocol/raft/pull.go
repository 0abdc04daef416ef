package raft

import (
	"bytes"
	"cmp"
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
	*machine
	from        view.MemberID
	incarnation view.Incarnation
	op          uint64
	after       []byte
	above       uint64 // what earlier entries made is here
	least       uint64
	latest      *peerv1.RaftApplied // what the fetched records are at least as new as
	snapshot    *raftpb.Message     // what the leader said; nil: of a newcomer
	due         protocol.Instant
	vain        int
}

func (m *machine) pull(from view.MemberID, above, least uint64, snapshot *raftpb.Message) *pull {
	q := &pull{
		machine: m, from: from, incarnation: m.Incarnations.Of(from), op: m.Op(), above: above,
		least: least, snapshot: snapshot,
	}
	q.ask()
	return q
}

// ask asks for the next page.
func (q *pull) ask() {
	q.due = q.Now.Add(q.Config.Retry << min(q.vain, 2))
	m := q.Message(peerv1.Kind_RAFT_PULL, q.op, nil)
	m.Raft = q.Encode(&peerv1.RaftPull{After: q.after, Above: q.above, Least: q.least}, "a question for a page", nil)
	q.Send(q.from, m)
}

// onPull answers with a page. It leaves when all that it tells is durable.
func (m *machine) onPull(from view.MemberID, msg *peerv1.Message) {
	asked := &peerv1.RaftPull{}
	if asked.UnmarshalVT(msg.Raft) != nil || m.applied.Index < asked.Least {
		return
	}
	page := &peerv1.RaftPage{After: asked.After, Last: true}
	if len(asked.After) == 0 {
		page.Applied = m.applied
	}
	seen, size := 0, 0
	for key, raw := range m.Journal.Kind(append([]byte{stateRecord}, asked.After...)) {
		if seen >= pageRecords || size >= cmp.Or(m.Config.Tuning.PageBytes, pageBytes) {
			page.Last = false
			break
		}
		seen++
		page.Until = append(page.Until[:0], key[1:]...)
		state := &peerv1.KeyState{}
		m.decodeState(key[1:], raw, state)
		if state.GetPrevious().GetTimestamp() > asked.Above {
			size += len(key) + len(raw)
			page.Records = append(page.Records, &peerv1.KeyRecord{Key: bytes.Clone(key[1:]), State: bytes.Clone(raw)})
		}
		if m.Err() != nil {
			break
		}
	}
	reply := m.Message(peerv1.Kind_EXECUTED, msg.Op, nil)
	reply.Raft = m.Encode(page, "a page", nil)
	m.SendDurably(from, reply)
}

// take takes a page in, and asks for the next one, unless it was the last. An error says that no sound member sends it:
// then it is no answer, and whoever leads is asked.
func (q *pull) take(page *peerv1.RaftPage) error {
	if err := bounds.Told(page.Applied); err != nil {
		return err
	}
	for _, r := range page.Records {
		if err := q.merge(r.Key, r.State); err != nil {
			return fmt.Errorf("the state of %.64q: %w", r.Key, err)
		}
	}
	if len(q.after) == 0 {
		q.latest = page.Applied
	}
	q.vain = 0
	if !page.Last {
		q.after = page.Until
		q.ask()
	}
	return nil
}

// behindLog is told by a leader that its log does not reach back to this member's.
func (p *Protocol) behindLog(from view.MemberID, r *raftpb.Message) {
	index := r.GetSnapshot().GetMetadata().GetIndex()
	switch s := p.node.BasicStatus(); {
	case r.GetTerm() < s.HardState.GetTerm():
	case index <= max(s.HardState.GetCommit(), p.applied.Index):
		if p.node.Step(r) == nil { // which tells the leader how far this member is
			p.follow(from, r)
		}
	case p.fetch == nil:
		p.Took(pathPull)
		p.fetch = p.pull(from, p.applied.Index, index, r)
	}
}

// tickPull asks again, or gives up: whoever leads says again that this member is behind.
func (p *Protocol) tickPull() {
	switch q := p.fetch; {
	case q == nil:
	case q.incarnation != p.Incarnations.Of(q.from) || q.vain >= patience:
		p.fetch = nil
	case p.Now >= q.due:
		q.vain++
		q.ask()
	}
}

// onExecuted takes a page, or what a newcomer asked for.
func (p *Protocol) onExecuted(from view.MemberID, m *peerv1.Message) {
	q := p.fetch
	if q == nil || q.op != m.Op {
		p.settleFrom(from, m)
		return
	}
	page := &peerv1.RaftPage{}
	err := page.UnmarshalVT(m.Raft)
	switch {
	case err != nil:
	case !bytes.Equal(page.After, q.after) || q.from != from || !p.knowsMe(m) ||
		!page.Last && bytes.Compare(page.Until, q.after) <= 0:
		return
	default:
		err = q.take(page)
	}
	switch {
	case err != nil:
		p.Refuse(from, fmt.Errorf("a page of its state is refused: %w", err))
	case page.Last:
		p.fetch = nil
		if q.latest.GetIndex() >= q.least { // else it is damaged
			p.install(q)
			p.join.done = q.snapshot == nil
		}
	}
}

// install makes what was fetched the state, and the log begin behind it.
func (p *Protocol) install(q *pull) {
	a := q.latest
	if a.Index > p.applied.Index {
		p.log.replace(a.Index, a.Term)
		p.applied = a
		p.put(appliedRecord, a)
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
		p.extension.Advanced()
		p.restart()
		for o := range p.operations.InProgress() {
			p.finishIfUnseen(o)
		}
		p.answerReads()
	}
	if q.snapshot != nil && p.node.Step(q.snapshot) == nil { // tells the leader
		p.follow(q.from, q.snapshot)
	}
}
