package raft

import (
	"cmp"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// machine is the state machine that the log is for: the states of the keys, and the last entry that is in them.
type machine struct {
	records
	applied *peerv1.RaftApplied // what was handed out never changes
	// extended: there is an Extension. Clients then see the number of commands on a key as its carstamp, and not the
	// place in the log: it is known before a command has its place, and the same wherever that comes to be.
	extended bool
}

func newMachine(d records) *machine {
	m := &machine{records: d, applied: &peerv1.RaftApplied{}}
	m.load(appliedRecord, m.applied)
	return m
}

// Applied is how far the log is executed here. It must not be changed.
func (m *machine) Applied() *peerv1.RaftApplied { return m.applied }

// run is a sequence of committed entries that are executed in one step, of which each key is stored once.
type run struct {
	*machine
	byKey map[string]*touched
	order []*touched
}

// touched is the state of a key that a run changes.
type touched struct {
	key    []byte
	state  *peerv1.KeyState
	loaded uint64 // the entry that had made it before the run; records that came from others may be ahead
	dirty  bool
}

func (m *machine) run() *run {
	m.applied = &peerv1.RaftApplied{
		Epoch: m.applied.Epoch, Served: m.applied.Served, Authors: slices.Clone(m.applied.Authors),
	}
	return &run{machine: m, byKey: map[string]*touched{}}
}

// next notes that the run goes up to an entry, and returns it if it has commands to execute.
func (r *run) next(e *raftpb.Entry) *peerv1.RaftEntry {
	r.applied.Index, r.applied.Term = e.GetIndex(), e.GetTerm()
	entry := r.commandsOf(e)
	if entry == nil {
		return nil
	}
	if bounds.Told(entry) == nil { // all members go by the same entries
		r.applied.Epoch = max(r.applied.Epoch, entry.Epoch)
	}
	if entry.Recovered {
		r.applied.Served = e.GetTerm()
	}
	return entry
}

// execute executes a command once, and returns the key's state and the answer. The state is nil if the command is over,
// and the answer if the state has the command already, and so does not tell it.
func (r *run) execute(c *peerv1.RaftCommand, at register.Carstamp) (*peerv1.KeyState, *peerv1.Answer) {
	if r.Over(c.Author, c.Number) {
		r.Took(pathAgain)
		return nil, nil
	}
	r.noteDone(c)
	t := r.byKey[string(c.Key)]
	if t == nil {
		t = &touched{key: c.Key, state: r.State(c.Key)}
		t.loaded = t.state.GetPrevious().GetTimestamp()
		r.byKey[string(c.Key)] = t
		r.order = append(r.order, t)
	}
	if t.loaded >= at.Timestamp {
		return t.state, nil
	}
	t.dirty = true
	return t.state, r.Perform(t.state, c, at)
}

// end stores what the run has made, and how far that is.
func (r *run) end() {
	for _, t := range r.order {
		if t.dirty {
			r.putState(t.key, t.state)
		}
	}
	r.put(appliedRecord, r.applied)
}

// Perform executes a command on the state of its key, as the entry at that place will.
func (m *machine) Perform(state *peerv1.KeyState, c *peerv1.RaftCommand, at register.Carstamp) *peerv1.Answer {
	if c.Rmw != nil {
		return m.performRMW(state, c.Rmw, at)
	}
	return m.become(state, at, register.ValueOf(c.Present, c.Value), &peerv1.Answer{})
}

// performRMW executes an rmw, unless it is the duplicate of one that its client sent through another coordinator.
func (m *machine) performRMW(state *peerv1.KeyState, c *peerv1.Command, at register.Carstamp) *peerv1.Answer {
	if answer := session.Recall(state, c); answer != nil {
		m.Took(pathDuplicate)
		return answer
	}
	value := wire.OfRecord(state.Previous).Value
	out, err := m.Config.Functions.Apply(value, wire.Call(c))
	if err != nil {
		// The others know the function: going on without it would be another history.
		m.Fault("execute an rmw of the log: %w", err)
		return &peerv1.Answer{Refused: err.Error()}
	}
	if out.Refused == "" && out.Changed {
		value = out.Next
	}
	answer := m.become(state, at, value,
		&peerv1.Answer{Present: out.Reply.Present(), Value: out.Reply, Refused: out.Refused})
	session.Remember(&m.Config.Tuning, state, c, answer)
	return answer
}

// become gives a key a value that was made at a place of the log, and an answer the carstamp that clients see.
func (m *machine) become(
	state *peerv1.KeyState, at register.Carstamp, v register.Value, a *peerv1.Answer,
) *peerv1.Answer {
	state.Previous = wire.Record(register.Versioned{Carstamp: at, Value: v})
	if m.extended {
		state.Count++
	}
	seen := m.seen(state)
	a.Timestamp, a.Rmws = seen.Timestamp, seen.RMWs
	return a
}

// seen is the carstamp of a key's state that clients see.
func (m *machine) seen(state *peerv1.KeyState) register.Carstamp {
	if m.extended {
		return register.Carstamp{Timestamp: state.Count}
	}
	return wire.OfRecord(state.Previous).Carstamp
}

func (m *machine) authorAt(author uint64) (int, bool) {
	return slices.BinarySearchFunc(m.applied.Authors, author, func(a *peerv1.RaftAuthor, w uint64) int {
		return cmp.Compare(a.Author, w)
	})
}

// Over reports whether a command must not be executed any more: it was, or its author has given it up.
func (m *machine) Over(author, number uint64) bool {
	i, known := m.authorAt(author)
	if !known {
		return false
	}
	a := m.applied.Authors[i]
	_, done := slices.BinarySearch(a.Done, number)
	return done || number < a.FirstIncomplete
}

// noteDone notes that a command was executed, and forgets those that its author does not wait for any more.
func (m *machine) noteDone(c *peerv1.RaftCommand) {
	i, known := m.authorAt(c.Author)
	if !known {
		m.applied.Authors = slices.Insert(m.applied.Authors, i, &peerv1.RaftAuthor{Author: c.Author})
	}
	old := m.applied.Authors[i]
	a := &peerv1.RaftAuthor{Author: c.Author, FirstIncomplete: max(old.FirstIncomplete, c.FirstIncomplete)}
	done := append(slices.Clone(old.Done), c.Number)
	slices.Sort(done)
	a.Done = slices.DeleteFunc(done, func(n uint64) bool { return n < a.FirstIncomplete })
	m.applied.Authors[i] = a
}
