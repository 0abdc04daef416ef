package raft

import (
	"encoding/binary"
	"slices"

	lib "go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/view"
)

// log is the library's disk: the end of the log in memory, and the same in the journal. It takes what is in the journal
// for stable. That it may still be lost, with the process, is what effects wait for that tell of it (durable).
type log struct {
	*machine
	tuning  Tuning
	view    *raftpb.ConfState
	hard    *peerv1.RaftHard
	start   *peerv1.RaftStart
	entries []*raftpb.Entry // behind start
	sizes   []int           // of their records
	size    int             // their sum

	written []written // ascending
	safe    uint64    // the log up to there survives a crash
}

// written says when the log up to an index is durable.
type written struct{ index, mark uint64 }

func newLog(m *machine, tuning Tuning) *log {
	l := &log{machine: m, tuning: tuning, view: m.electorate(), hard: &peerv1.RaftHard{}, start: &peerv1.RaftStart{}}
	l.load(hardRecord, l.hard)
	l.load(startRecord, l.start)
	for _, raw := range l.Journal.Kind([]byte{entryRecord}) {
		e := &raftpb.Entry{}
		if err := proto.Unmarshal(raw, e); err != nil {
			l.Fault("entry %d of the log on disk is damaged: %w", l.last()+1, err)
			break
		}
		if err := bounds.Counted("an entry of the log on disk", e.GetTerm(), e.GetIndex()); err != nil {
			l.Fault("%w", err)
			break
		}
		if e.GetIndex() != l.last()+1 {
			l.Fault("entry %d of the log on disk follows entry %d", e.GetIndex(), l.last())
			break
		}
		l.add(e, len(raw))
	}
	l.written = []written{{l.last(), l.Journal.Mark()}}
	return l
}

func (l *log) last() uint64 { return l.start.Index + uint64(len(l.entries)) }

func (l *log) add(e *raftpb.Entry, size int) {
	l.entries, l.sizes, l.size = append(l.entries, e), append(l.sizes, size), l.size+size
}

// durable is the index up to which this member's log survives a crash.
func (l *log) durable() uint64 {
	for len(l.written) > 0 && l.Journal.Survives(l.written[0].mark) {
		l.safe = l.written[0].index
		l.written = l.written[1:]
	}
	return l.safe
}

func (l *log) key(index uint64) []byte {
	b := append(l.Keys.Make(9)[:0], entryRecord)
	return binary.BigEndian.AppendUint64(b, index)
}

// append puts entries behind the one before them. What was there under their indexes was never committed.
func (l *log) append(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	first := entries[0].GetIndex()
	l.cut(first - 1)
	for _, e := range entries {
		raw, err := proto.Marshal(e)
		if err != nil {
			l.Fault("encode an entry of the log: %w", err)
			return
		}
		l.Journal.Put(l.key(e.GetIndex()), raw)
		l.add(e, len(raw))
	}
	l.written = append(l.written, written{l.last(), l.Journal.Mark()})
}

// cut removes what is behind an index.
func (l *log) cut(last uint64) {
	if last >= l.last() {
		return
	}
	l.durable()
	l.safe = min(l.safe, last)
	for i := range l.written {
		l.written[i].index = min(l.written[i].index, last)
	}
	keep := int(last - l.start.Index)
	l.remove(keep, len(l.entries))
	l.entries, l.sizes = l.entries[:keep:keep], l.sizes[:keep:keep]
}

// remove takes the records of some entries from the journal, by their positions.
func (l *log) remove(from, to int) {
	for i := from; i < to; i++ {
		l.Journal.Delete(l.key(l.entries[i].GetIndex()))
		l.size -= l.sizes[i]
	}
}

// compact forgets the oldest entries that are applied, unless few are kept.
func (l *log) compact() {
	applied := int(l.applied.Index - l.start.Index)
	excess := applied - l.tuning.Entries
	for size := l.size; size > l.tuning.Bytes && excess < applied; excess++ {
		if excess >= 0 {
			size -= l.sizes[excess]
		}
	}
	if excess <= l.tuning.Entries/4 {
		return // many at once
	}
	l.Took(pathCompact)
	l.behind(l.start.Index+uint64(excess), l.entries[excess-1].GetTerm())
}

// behind makes the log begin behind an entry that is in it.
func (l *log) behind(index, term uint64) {
	gone := int(index - l.start.Index)
	l.remove(0, gone)
	l.entries, l.sizes = slices.Clone(l.entries[gone:]), slices.Clone(l.sizes[gone:])
	l.begin(index, term)
}

// replace makes the log begin behind an entry whose outcome came from elsewhere. If the entry is here too, what follows
// it here stays: this member may have acknowledged that. Otherwise what is here from there on was never committed.
func (l *log) replace(index, term uint64) {
	if has, err := l.Term(index); err == nil && has == term && index > l.start.Index {
		l.behind(index, term)
		return
	}
	l.cut(l.start.Index)
	l.begin(index, term)
	l.written = append(l.written, written{index, l.Journal.Mark()})
}

func (l *log) begin(index, term uint64) {
	l.start = &peerv1.RaftStart{Index: index, Term: term}
	l.put(startRecord, l.start)
}

// electorate is the view as the library knows configurations.
func (d *records) electorate() *raftpb.ConfState {
	ids := func(v view.View) (ids []uint64) {
		for _, m := range v.Members {
			ids = append(ids, uint64(m.ID))
		}
		return ids
	}
	c := &raftpb.ConfState{Voters: ids(d.Config.View.After())}
	if d.Config.View.Joint() && !d.mistakes.CountOneSide {
		c.VotersOutgoing = ids(d.Config.View.Before())
	}
	return raftpb.EnsureConfState(c)
}

// promise writes a term, a vote and the commit index.
func (l *log) promise(term, vote, commit uint64) {
	l.hard = &peerv1.RaftHard{Term: term, Vote: vote, Commit: commit}
	l.put(hardRecord, l.hard)
}

// InitialState implements the library's Storage. The view says who votes, and nothing else does.
func (l *log) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	commit := min(max(l.hard.Commit, l.applied.Index), l.last())
	hard := &raftpb.HardState{Term: &l.hard.Term, Vote: &l.hard.Vote, Commit: &commit}
	return hard, l.view, nil
}

// Entries implements the library's Storage.
func (l *log) Entries(lo, hi, most uint64) ([]*raftpb.Entry, error) {
	if lo <= l.start.Index {
		return nil, lib.ErrCompacted
	}
	if hi > l.last()+1 {
		return nil, lib.ErrUnavailable
	}
	from, to := int(lo-l.start.Index-1), int(hi-l.start.Index-1)
	size := uint64(0)
	for i := from; i < to; i++ {
		if size += uint64(l.sizes[i]); size > most && i > from {
			to = i
		}
	}
	return l.entries[from:to:to], nil
}

// Term implements the library's Storage.
func (l *log) Term(index uint64) (uint64, error) {
	switch {
	case index < l.start.Index:
		return 0, lib.ErrCompacted
	case index == l.start.Index:
		return l.start.Term, nil
	case index > l.last():
		return 0, lib.ErrUnavailable
	}
	return l.entries[index-l.start.Index-1].GetTerm(), nil
}

// LastIndex implements the library's Storage.
func (l *log) LastIndex() (uint64, error) { return l.last(), nil }

// FirstIndex implements the library's Storage.
func (l *log) FirstIndex() (uint64, error) { return l.start.Index + 1, nil }

// Snapshot implements the library's Storage. It says only that there is one: who needs it asks for its records
// (pull.go).
func (l *log) Snapshot() (*raftpb.Snapshot, error) {
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		ConfState: l.view, Index: &l.applied.Index, Term: &l.applied.Term,
	}}, nil
}
