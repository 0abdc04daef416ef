package raft

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"

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
	*lib.MemoryStorage // of the entries behind start
	view               *raftpb.ConfState
	hard               *peerv1.RaftHard
	start              *peerv1.RaftStart
	size               int // of the entries' records

	written []written // ascending
	safe    uint64    // the log up to there survives a crash
}

// written says when the log up to an index is durable.
type written struct{ index, mark uint64 }

func newLog(m *machine) *log {
	l := &log{
		machine: m, MemoryStorage: lib.NewMemoryStorage(), view: m.electorate(), hard: &peerv1.RaftHard{},
		start: &peerv1.RaftStart{},
	}
	l.load(hardRecord, l.hard)
	l.load(startRecord, l.start)
	l.beginMemory()
	for _, raw := range l.Journal.Kind([]byte{entryRecord}) {
		e := &raftpb.Entry{}
		err := proto.Unmarshal(raw, e)
		if err == nil {
			err = bounds.Counted("it", e.GetTerm(), e.GetIndex())
		}
		if err == nil && e.GetIndex() != l.last()+1 {
			err = fmt.Errorf("it is entry %d", e.GetIndex())
		}
		if err != nil {
			l.Fault("entry %d of the log on disk is damaged: %w", l.last()+1, err)
			break
		}
		l.size += len(raw)
		l.done(l.Append([]*raftpb.Entry{e}))
	}
	l.written = []written{{l.last(), l.Journal.Mark()}}
	return l
}

// done stops the member if the log in memory can't follow the one on disk.
func (l *log) done(err error) {
	if err != nil {
		l.Fault("the log in memory: %w", err)
	}
}

// beginMemory has the log in memory begin at start, without entries.
func (l *log) beginMemory() {
	l.done(l.ApplySnapshot(&raftpb.Snapshot{
		Metadata: &raftpb.SnapshotMetadata{Index: &l.start.Index, Term: &l.start.Term},
	}))
}

func (l *log) last() uint64 {
	last, _ := l.LastIndex() // memory has no errors
	return last
}

// between is the log behind an index, up to another.
func (l *log) between(after, last uint64) []*raftpb.Entry {
	entries, _ := l.Entries(after+1, last+1, math.MaxUint64) // an error: there are none
	return entries
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
	l.cut(entries[0].GetIndex() - 1)
	for _, e := range entries {
		raw, err := proto.Marshal(e)
		if err != nil {
			l.Fault("encode an entry of the log: %w", err)
			return
		}
		l.Journal.Put(l.key(e.GetIndex()), raw)
		l.size += len(raw)
	}
	l.done(l.Append(entries))
	l.written = append(l.written, written{l.last(), l.Journal.Mark()})
}

// cut removes the records behind an index. What comes there replaces the entries in memory.
func (l *log) cut(last uint64) {
	if last >= l.last() {
		return
	}
	l.durable()
	l.safe = min(l.safe, last)
	for i := range l.written {
		l.written[i].index = min(l.written[i].index, last)
	}
	l.remove(l.between(last, l.last()))
}

// remove takes the records of entries from the journal.
func (l *log) remove(entries []*raftpb.Entry) {
	for _, e := range entries {
		l.Journal.Delete(l.key(e.GetIndex()))
		l.size -= proto.Size(e)
	}
}

// compact forgets the oldest entries that are applied, many at once: when there is a quarter more than is kept.
func (l *log) compact() {
	t := &l.Config.Tuning
	entries, bytes := cmp.Or(t.LogEntries, keptEntries), cmp.Or(t.LogBytes, keptBytes)
	if int(l.applied.Index-l.start.Index) <= entries+entries/4 && l.size <= bytes+bytes/4 {
		return
	}
	applied, size, gone := l.between(l.start.Index, l.applied.Index), l.size, 0
	for gone < len(applied) && (len(applied)-gone > entries || size > bytes) {
		size -= proto.Size(applied[gone])
		gone++
	}
	if gone > 0 {
		l.Took(pathCompact)
		l.behind(applied[gone-1].GetIndex(), applied[gone-1].GetTerm())
	}
}

// behind makes the log begin behind an entry that is in it.
func (l *log) behind(index, term uint64) {
	l.remove(l.between(l.start.Index, index))
	l.begin(index, term)
	l.done(l.Compact(index))
}

// replace makes the log begin behind an entry whose outcome came from elsewhere. If the entry is here too, what follows
// it here stays: this member may have acknowledged that. Otherwise what is here from there on was never committed.
func (l *log) replace(index, term uint64) {
	if has, err := l.Term(index); err == nil && has == term {
		l.behind(index, term)
		return
	}
	l.cut(l.start.Index)
	l.begin(index, term)
	l.beginMemory()
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
	if d.Config.View.Joint() {
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

// Snapshot implements the library's Storage. It says only that there is one: who needs it asks for its records
// (pull.go).
func (l *log) Snapshot() (*raftpb.Snapshot, error) {
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		ConfState: l.view, Index: &l.applied.Index, Term: &l.applied.Term,
	}}, nil
}
