// Package part has an example for each operator.
package part

import (
	"errors"

	peerv1 "example/api/peer/v1"
)

type ballot struct{ number, proposer uint64 }

func (b ballot) less(c ballot) bool {
	if b.number != c.number {
		return b.number < c.number
	}
	return b.proposer < c.proposer
}

type tally struct{ answers int }

type journal struct{}

func (journal) Put(key, value []byte)   {}
func (journal) Durable(key []byte) bool { return false }

type member struct {
	journal  journal
	promised ballot
	value    []byte
	members  int
	done     bool
	Trips    int
}

func (m *member) Send(*peerv1.Message)        {}
func (m *member) SendDurably(*peerv1.Message) {}
func (m *member) Took(path string)            {}
func (m *member) Fault(err error)             {}

// Of a record: encoded and decoded.

func (m *member) encode() *peerv1.ThingRecord {
	return &peerv1.ThingRecord{Ballot: m.promised.number, Part: &peerv1.Part{Value: m.value}}
}

func (m *member) decode(r *peerv1.ThingRecord) {
	m.promised.number, m.value = r.Ballot, r.Part.Value
}

// Of messages.

func (m *member) promise(term uint64) {
	a := &peerv1.Message{Kind: 1}
	a.Term = term
	m.SendDurably(a)
}

func (m *member) safe(key []byte) bool { return m.journal.Durable(key) }

func (m *member) retransmit(a *peerv1.Message) {
	if !m.done {
		m.Send(a)
	}
}

// Of conditions.

func (m *member) enough(t tally) bool { return t.answers >= m.majority() }

func (m *member) majority() int { return m.members/2 + 1 }

func (m *member) later(b ballot) bool { return !b.less(m.promised) }

func (m *member) same(b ballot) bool { return b == m.promised }

func (m *member) either(a bool) bool {
	n, ok := m.members, a
	return ok && n > 2
}

// Of statements.

func (m *member) receive(kind int, err error) {
	if err != nil {
		return // what is told of errors is no guard
	}
	if m.done {
		return
	}
	switch kind {
	case 1:
		m.done = true
		m.Took("done")
	case 2:
		m.Trips++ // a figure
		m.journal.Put(nil, m.value)
	default:
		m.Fault(errors.New("the kind is unknown"))
	}
}

func (m *member) resume(b ballot) {
	m.promised = b
}
