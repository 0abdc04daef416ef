package raft

import (
	"cmp"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
)

// touched is the state of a key that a run of entries changes.
type touched struct {
	key    []byte
	state  *peerv1.KeyState
	loaded uint64 // the entry that had made it before the run; records that came from others may be ahead
	dirty  bool
}

// applying is a run of entries.
type applying struct {
	byKey map[string]*touched
	order []*touched
}

func (p *Protocol) loadApplied() {
	p.state = &peerv1.RaftApplied{}
	p.loadRecord(appliedRecord, p.state)
}

// apply executes committed entries in their order. What they made, and how far that is, is one batch.
func (p *Protocol) apply(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	run := &applying{byKey: map[string]*touched{}}
	state := &peerv1.RaftApplied{Epoch: p.state.Epoch, Served: p.state.Served, Authors: slices.Clone(p.state.Authors)}
	p.state = state // what was handed out never changes
	for _, e := range entries {
		state.Index, state.Term = e.GetIndex(), e.GetTerm()
		if e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		entry := &peerv1.RaftEntry{}
		if err := entry.UnmarshalVT(e.GetData()); err != nil {
			p.Fault("entry %d of the log is damaged: %w", e.GetIndex(), err)
			return
		}
		if bounds.Told(entry) == nil { // all members go by the same entries
			state.Epoch = max(state.Epoch, entry.Epoch)
		}
		for i, c := range entry.Commands {
			p.applyCommand(run, c, register.Carstamp{Timestamp: e.GetIndex(), RMWs: uint64(i) + 1})
		}
		if entry.Recovered {
			state.Served = e.GetTerm()
		}
		if p.extension != nil {
			p.extension.Executed(e.GetIndex(), entry)
		}
	}
	for _, t := range run.order {
		if t.dirty {
			p.putState(t.key, t.state)
		}
	}
	p.putRecord(appliedRecord, state)
	if p.extension != nil {
		p.extension.Advanced()
	}
	p.releaseReads()
	p.answerReads()
}

// applyCommand executes a command once, and answers the client if it is one of this member's.
func (p *Protocol) applyCommand(run *applying, c *peerv1.RaftCommand, at register.Carstamp) {
	if p.over(c.Author, c.Number) && !p.mistakes.ForgetAuthors {
		p.Took(pathAgain)
		return
	}
	p.noteDone(c)
	t := run.byKey[string(c.Key)]
	if t == nil {
		t = &touched{key: c.Key, state: p.loadState(c.Key)}
		t.loaded = t.state.GetPrevious().GetTimestamp()
		run.byKey[string(c.Key)] = t
		run.order = append(run.order, t)
	}
	o := p.operations.Find(c.Number)
	mine := register.Writer(c.Author) == p.author && o != nil && !o.reads()
	if t.loaded >= at.Timestamp && !p.mistakes.AdoptBlindly { // it is done there already
		if mine {
			p.finishUnseen(o, t.state)
		}
		return
	}
	t.dirty = true
	answer := p.perform(t.state, c, at)
	if mine {
		p.finishAt(o, at.Timestamp, resultOf(answer))
	}
}

// perform executes a command on the state of its key.
func (p *Protocol) perform(state *peerv1.KeyState, c *peerv1.RaftCommand, at register.Carstamp) *peerv1.Answer {
	if c.Rmw != nil {
		return p.execute(state, c.Rmw, at)
	}
	state.Previous = &peerv1.RegisterRecord{
		Timestamp: at.Timestamp, Rmws: at.RMWs, Present: c.Present, Value: c.Value,
	}
	seen := p.stamp(state, at)
	return &peerv1.Answer{Timestamp: seen.Timestamp, Rmws: seen.RMWs}
}

// execute runs an rmw, unless it is the duplicate of one that its client sent through another coordinator.
func (p *Protocol) execute(state *peerv1.KeyState, c *peerv1.Command, at register.Carstamp) *peerv1.Answer {
	if !p.mistakes.ForgetSessions {
		if answer := session.Recall(state, c); answer != nil {
			p.Took(pathDuplicate)
			return answer
		}
	}
	current := state.GetPrevious()
	out, err := p.Config.Functions.Apply(stamp.Value(current.GetPresent(), current.GetValue()), register.Call{
		Function: c.Function, Args: c.Args, MaxValueBytes: int(c.MaxValueBytes),
	})
	if err != nil {
		// The others know the function: going on without it would be another history.
		p.Fault("execute an rmw of the log: %w", err)
		return &peerv1.Answer{Refused: err.Error()}
	}
	next := &peerv1.RegisterRecord{Timestamp: at.Timestamp, Rmws: at.RMWs, Present: current.GetPresent(), Value: current.GetValue()}
	if out.Refused == "" && out.Changed {
		next.Present, next.Value = out.Next.Present(), out.Next
	}
	state.Previous = next
	seen := p.stamp(state, at)
	answer := &peerv1.Answer{
		Present: out.Reply.Present(), Value: out.Reply, Refused: out.Refused, Timestamp: seen.Timestamp, Rmws: seen.RMWs,
	}
	session.Remember(state, c, answer)
	return answer
}

func resultOf(a *peerv1.Answer) register.Result {
	r := register.Result{
		Status: register.OK, Value: stamp.Value(a.Present, a.Value),
		Carstamp: register.Carstamp{Timestamp: a.Timestamp, RMWs: a.Rmws},
	}
	switch {
	case a.Expired:
		r = register.Result{Status: register.Unknown, Message: "the rmw was sent before, and its outcome is not kept any more"}
	case a.Refused != "":
		r.Status, r.Message = register.Failed, a.Refused
	}
	return r
}

func (p *Protocol) authorAt(author uint64) (int, bool) {
	return slices.BinarySearchFunc(p.state.Authors, author, func(a *peerv1.RaftAuthor, w uint64) int { return cmp.Compare(a.Author, w) })
}

// over reports whether a command must not be executed any more: it was, or its author has given it up.
func (p *Protocol) over(author, number uint64) bool {
	i, known := p.authorAt(author)
	if !known {
		return false
	}
	a := p.state.Authors[i]
	_, done := slices.BinarySearch(a.Done, number)
	return done || number < a.FirstIncomplete
}

// noteDone notes that a command was executed, and forgets those that its author does not wait for any more.
func (p *Protocol) noteDone(c *peerv1.RaftCommand) {
	i, known := p.authorAt(c.Author)
	if !known {
		p.state.Authors = slices.Insert(p.state.Authors, i, &peerv1.RaftAuthor{Author: c.Author})
	}
	old := p.state.Authors[i]
	a := &peerv1.RaftAuthor{Author: c.Author, FirstIncomplete: max(old.FirstIncomplete, c.FirstIncomplete)}
	done := append(slices.Clone(old.Done), c.Number)
	slices.Sort(done)
	a.Done = slices.DeleteFunc(done, func(n uint64) bool { return n < a.FirstIncomplete })
	p.state.Authors[i] = a
}

func (p *Protocol) loadState(key []byte) *peerv1.KeyState {
	raw, ok := p.Journal.Get(p.Keys.Lookup(stateRecord, key))
	if !ok {
		return &peerv1.KeyState{}
	}
	state, err := decodeState(raw, bounds.Record)
	if err != nil {
		p.Fault("the state of %q on disk is damaged: %w", key, err)
	}
	return state
}

// decodeState reads the state of a key, within bounds.
func decodeState(raw []byte, check func(any) error) (*peerv1.KeyState, error) {
	state := &peerv1.KeyState{}
	if err := state.UnmarshalVT(raw); err != nil {
		return state, err
	}
	return state, check(state)
}

func (p *Protocol) putState(key []byte, state *peerv1.KeyState) {
	raw, err := state.MarshalVT()
	if err != nil {
		p.Fault("encode the state of %q: %w", key, err)
		return
	}
	p.Journal.Put(p.Keys.Record(stateRecord, key), raw)
}

// merge takes another member's state of a key, if a later entry made it. States of a key are those after prefixes of
// one log; that this one may be ahead of the rest of the state does no harm, since entries leave it alone that it has
// already.
func (p *Protocol) merge(key, raw []byte) error {
	theirs, err := decodeState(raw, bounds.Told)
	if err != nil {
		return err
	}
	if p.mistakes.AdoptBlindly || theirs.GetPrevious().GetTimestamp() > p.loadState(key).GetPrevious().GetTimestamp() {
		p.Journal.Put(p.Keys.Record(stateRecord, key), slices.Clone(raw))
	}
	return nil
}
