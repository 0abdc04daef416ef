package raft

import (
	"encoding/binary"
	"slices"

	lib "go.etcd.io/raft/v3"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// reads are what this member does for reads as the leader. One confirmation serves all that came before it began.
type reads struct {
	waiting []reader
	batches map[uint64][]reader // that the node confirms, by number
	last    uint64
	held    []held
}

// reader is a coordinator that waits for the index from which on the state may answer its read.
type reader struct {
	from   view.MemberID
	op     uint64
	answer peerv1.Kind
	key    []byte // of a read, for an extension
}

// held is a read of what a leader has executed and not applied: its answer waits for the entry of that index.
type held struct {
	reader
	index uint64
}

func (r *reads) add(reader reader) { r.waiting = append(r.waiting, reader) }

// askReads has the node confirm that it still leads, for all that wait.
func (p *Protocol) askReads() {
	if len(p.reads.waiting) == 0 {
		return
	}
	p.reads.last++
	number := p.reads.last
	p.reads.batches[number], p.reads.waiting = p.reads.waiting, nil
	p.node.ReadIndex(binary.BigEndian.AppendUint64(nil, number))
}

// confirmed tells those of a batch from which index on the state may answer them.
func (p *Protocol) confirmed(number, index uint64) {
	if p.extended {
		// clients may have known of what was not committed when the confirmation began
		index = max(index, p.applied.Index)
	}
	for _, r := range p.reads.batches[number] {
		if at := p.extension.Unsynced(r.key); at > p.applied.Index {
			p.reads.held = append(p.reads.held, held{r, at})
		} else {
			p.tellIndex(r, index)
		}
	}
	delete(p.reads.batches, number)
	p.answerReads()
}

func (p *Protocol) onReadStates(states []lib.ReadState) {
	for _, s := range states {
		p.confirmed(binary.BigEndian.Uint64(s.RequestCtx), s.Index)
	}
}

// tellIndex tells a coordinator from which index on its state answers the read.
func (p *Protocol) tellIndex(r reader, index uint64) {
	if r.from == p.Config.Self {
		p.confirm(r.op, index)
		return
	}
	m := p.Message(r.answer, r.op)
	m.Timestamp = index
	p.SendWhen(index <= p.durable(), r.from, m)
}

// releaseReads goes on with the reads whose key's entries are applied by now.
func (p *Protocol) releaseReads() {
	p.reads.held = slices.DeleteFunc(p.reads.held, func(h held) bool {
		if h.index > p.applied.Index {
			return false
		}
		p.Took(PathHeld)
		p.tellIndex(h.reader, p.applied.Index)
		return true
	})
}

// onRead has the node confirm that it leads, if it does, for another member's read, or for a newcomer.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message, answer peerv1.Kind) {
	if p.elect.leads() {
		p.reads.add(reader{from, m.Op, answer, m.Key})
	}
}
