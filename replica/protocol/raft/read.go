package raft

import (
	"encoding/binary"

	lib "go.etcd.io/raft/v3"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// reads are what this member does for reads as the leader. One confirmation serves all that came before it began.
type reads struct {
	asked   []reader
	batches map[uint64][]reader
	last    uint64
	held    []held
}

// held is a read of what a leader has executed and not applied: its answer waits for the entry of that index.
type held struct {
	reader
	index uint64
}

// askReads has the node confirm that it still leads, for all that wait.
func (p *Protocol) askReads() {
	if len(p.read.asked) == 0 {
		return
	}
	batch := p.read.asked
	p.read.asked = nil
	if p.mistakes.ReadWithoutIndex {
		p.confirmed(batch, p.state.Index)
		return
	}
	p.read.last++
	p.read.batches[p.read.last] = batch
	p.node.ReadIndex(binary.BigEndian.AppendUint64(nil, p.read.last))
}

// confirm tells those that wait from which index on the state may answer them.
func (p *Protocol) confirm(states []lib.ReadState) {
	for _, s := range states {
		id := binary.BigEndian.Uint64(s.RequestCtx)
		batch := p.read.batches[id]
		delete(p.read.batches, id)
		p.confirmed(batch, s.Index)
	}
	if len(states) > 0 {
		p.answerReads()
	}
}

func (p *Protocol) confirmed(batch []reader, index uint64) {
	if p.extension != nil {
		index = max(index, p.state.Index) // clients may have known of what was not committed when the confirmation began
	}
	for _, r := range batch {
		if p.extension != nil {
			if at := p.extension.Unsynced(r.key); at > p.state.Index {
				p.read.held = append(p.read.held, held{r, at})
				continue
			}
		}
		p.tellIndex(r, index)
	}
	p.answerReads()
}

// tellIndex tells a coordinator from which index on its state answers the read.
func (p *Protocol) tellIndex(r reader, index uint64) {
	if r.from == p.Config.Self {
		p.confirmRead(r.op, index)
		return
	}
	m := p.Message(r.answer, r.op)
	m.Timestamp = index
	p.SendWhen(index <= p.log.durable(), r.from, m)
}

// releaseReads goes on with the reads whose key's entries are applied by now.
func (p *Protocol) releaseReads() {
	if len(p.read.held) == 0 {
		return
	}
	waiting := p.read.held
	p.read.held = nil
	var ready []reader
	for _, h := range waiting {
		if h.index > p.state.Index {
			p.read.held = append(p.read.held, h)
			continue
		}
		ready = append(ready, h.reader)
	}
	for _, r := range ready {
		p.Took(PathHeld)
		p.tellIndex(r, p.state.Index)
	}
}

// onRead takes the read of another coordinator, if this member leads.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message) {
	if p.elect.leads {
		p.read.asked = append(p.read.asked, reader{from, m.Op, peerv1.Kind_RAFT_READ_REPLY, m.Key})
	}
}

func (p *Protocol) onReadReply(m *peerv1.Message) {
	p.confirmRead(m.Op, m.Timestamp)
	p.answerReads()
}

// confirmRead: a read may be answered by the state after any entry that was committed when one confirmation of it
// began.
func (p *Protocol) confirmRead(op, index uint64) {
	if o := p.operations.Find(op); o != nil && o.reads() && !o.confirmed {
		o.index, o.confirmed = index, true
	}
}

// answerReads answers those whose entry is applied here. What they see may be later than that, and rests on all of the
// log that is applied.
func (p *Protocol) answerReads() {
	for o := range p.operations.InProgress() {
		if !o.confirmed || o.index > p.state.Index {
			continue
		}
		state := p.loadState([]byte(o.request.Operation.Key))
		v := state.GetPrevious()
		p.finishAt(o, p.state.Index, register.Result{
			Status: register.OK, Value: stamp.Value(v.GetPresent(), v.GetValue()), Carstamp: p.seen(state),
		})
	}
}
