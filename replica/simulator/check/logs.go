package check

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// The records of a member that runs Raft, by the first byte of their keys (package raft).
const (
	raftHard    = "h"
	raftStart   = "t"
	raftApplied = "a"
	raftBasis   = "b"
	raftEntry   = 'l'
	raftSaved   = 'w'
)

// Logs is what the members of Raft groups, one for each shard, have said of terms, votes and entries, and what
// their disks have of that.
type Logs struct {
	groups map[int]*group // these maps are never ranged over
	disks  map[place]*logDisk
}

// group is what the members of a shard have said.
type group struct {
	leaders   map[uint64]view.MemberID // by term
	votes     map[vote]uint64          // for whom
	grants    map[grant]uint32         // votes, and for which disk
	elected   map[uint64]bool          // terms in which somebody leads, as a quorum has voted
	disks     map[vote]reckoning       // that a candidate, and then a leader, counts with
	entries   map[entryID]entry
	told      map[entryID]uint64                         // terms of entries, by index and the term of who leads with them
	applied   map[uint64][]byte                          // by index: what the state after that entry says of itself
	commit    uint64                                     // told by a leader
	committed map[uint64]commit                          // of entries up to that one, by index
	saved     map[handed]uint64                          // the authors of commands that witnesses were to save
	recorded  map[view.MemberID][]attempt                // by who had them be saved
	once      map[asking]bool                            // that had them be saved
	heard     map[hearing]bool                           // what members have heard of commands, and of what is saved
	since     map[handed]map[view.MemberID]time.Duration // when a member was first to save another one's command
	gathers   map[uint64]bool                            // terms whose leaders have asked what is saved
	recovered map[uint64]bool                            // terms whose leaders have told what was
	turns     turns
}

type place struct {
	shard int
	disk  string
}

type vote struct {
	disk string
	term uint64
}

// reckoning has the disks of the members that one counts with, and the turn in which it first knew of others; 0: none.
type reckoning struct {
	known   []uint32
	changed uint64
}

type entryID struct{ index, term uint64 }

// entry is what one has, and the term of the one before it.
type entry struct {
	before uint64
	data   []byte
}

// commit is the term of an entry, and that of the leader who told that it is committed.
type commit struct{ term, by uint64 }

// overwrites reports that a leader of a term lacks an entry that was committed then: it has another one.
func (g *group) overwrites(index, term, leads uint64) error {
	if c, known := g.committed[index]; known && leads >= c.by && term != c.term {
		return fmt.Errorf("leads in term %d with an entry %d of term %d, and another one was committed", leads, index,
			term)
	}
	return nil
}

type handed struct {
	from   view.MemberID
	number uint64
}

// logDisk is what was seen of a disk.
type logDisk struct {
	last     uint64 // index of the last entry, when it was looked at last
	start    []byte // where the log begins
	begins   uint64 // the index of that
	beginsIn uint64 // and its term
	applied  []byte
	gathered uint64 // the highest term whose leader was told what is saved here
}

// Holder is a member's disk, as one shard of it has its records.
type Holder struct {
	Member  view.MemberID
	Disk    string
	Shard   int
	Records map[string][]byte
	View    *view.View
}

func (l *Logs) group(shard int) *group { return l.groups[shard] }

func (l *Logs) begin(shard int) *group {
	if l.groups == nil {
		l.groups, l.disks = map[int]*group{}, map[place]*logDisk{}
	}
	g := l.groups[shard]
	if g == nil {
		g = &group{
			leaders: map[uint64]view.MemberID{}, votes: map[vote]uint64{}, grants: map[grant]uint32{}, elected: map[uint64]bool{}, disks: map[vote]reckoning{},
			entries: map[entryID]entry{}, told: map[entryID]uint64{}, applied: map[uint64][]byte{},
			committed: map[uint64]commit{}, saved: map[handed]uint64{}, recorded: map[view.MemberID][]attempt{},
			once: map[asking]bool{}, since: map[handed]map[view.MemberID]time.Duration{}, heard: map[hearing]bool{},
			gathers: map[uint64]bool{}, recovered: map[uint64]bool{},
		}
		l.groups[shard] = g
	}
	return g
}

func (l *Logs) of(h *Holder) *logDisk {
	at := place{h.Shard, h.Disk}
	d := l.disks[at]
	if d == nil {
		d = &logDisk{}
		l.disks[at] = d
	}
	return d
}

// Last is the index of the last entry of a disk's log, or of the state that its log begins with.
func (l *Logs) Last(h *Holder) uint64 {
	d := l.of(h)
	if raw := h.Records[raftStart]; !bytes.Equal(raw, d.start) {
		var start peerv1.RaftStart
		if start.UnmarshalVT(raw) != nil {
			return 0
		}
		d.start, d.begins, d.beginsIn = raw, start.Index, start.Term
	}
	for d.last > d.begins && h.entry(d.last) == nil {
		d.last--
	}
	d.last = max(d.last, d.begins)
	for h.entry(d.last+1) != nil {
		d.last++
	}
	return d.last
}

// ends judges where a log ends: terms never fall along a log, so that what follows an entry is no older than it is.
func (h *Holder) ends(index, term uint64) error {
	if next := h.term(index + 1); next > 0 && next < term {
		return fmt.Errorf("entry %d of its log is of term %d, and follows one of term %d", index+1, next, term)
	}
	return nil
}

// entry is the record of an entry of the log, or nil.
func (h *Holder) entry(index uint64) []byte { return h.numbered(raftEntry, index) }

// numbered is the record of a kind that has a number in its key, or nil.
func (h *Holder) numbered(kind byte, number uint64) []byte {
	var key [9]byte
	key[0] = kind
	binary.BigEndian.PutUint64(key[1:], number)
	return h.Records[string(key[:])]
}

// term is that of an entry of the log, or 0.
func (h *Holder) term(index uint64) uint64 { return field.Number(h.entry(index), entryTerm) }

// hard is what the disk has promised.
func (h *Holder) hard() (*peerv1.RaftHard, error) {
	hard := &peerv1.RaftHard{}
	return hard, hard.UnmarshalVT(h.Records[raftHard])
}

// Answers judges an answer to a client that rests on an entry of the log: the disks of a quorum have it.
func (l *Logs) Answers(shard int, index uint64, held func(index uint64) bool) error {
	if l.group(shard) == nil || held(index) {
		return nil
	}
	return fmt.Errorf("a client is told of entry %d of shard %d, and no quorum has the log up to there on disk",
		index, shard)
}

// Sends holds a message that leaves a member in a turn against its disk, and against what others have said. Held
// reports whether the disks of a quorum have the log up to an index.
func (l *Logs) Sends(h *Holder, to view.MemberID, m *peerv1.Message, turn uint64, held func(index uint64) bool) error {
	var err error
	switch m.Kind {
	case peerv1.Kind_RAFT:
		var r raftMessage
		if r, err = readRaft(m.Raft); err != nil {
			return err
		}
		r.epoch = m.Epoch
		g := l.begin(h.Shard)
		if err = cmp.Or(g.sends(l, h, r, held), g.counts(h, r, m.Known, turn), g.elects(h, to, r, m.Known),
			g.recovers(h, r)); err == nil {
			err = l.applies(h)
		}
	case peerv1.Kind_RAFT_READ_REPLY, peerv1.Kind_EXECUTED:
		if last := uint64(0); l.group(h.Shard) != nil && m.Timestamp > 0 {
			if last = l.Last(h); last < m.Timestamp {
				err = fmt.Errorf("tells of a state after entry %d, and its disk has the log up to %d", m.Timestamp,
					last)
			}
		}
		if err == nil && m.Kind == peerv1.Kind_EXECUTED && len(m.Raft) > 0 {
			err = h.copies(m.Raft)
		}
	case peerv1.Kind_RECORD, peerv1.Kind_RECORD_REPLY, peerv1.Kind_GATHERED:
		if l.group(h.Shard) != nil {
			err = l.saves(h, to, m)
		}
	case peerv1.Kind_SPECULATED:
		if h.View.Joint() {
			err = errors.New("executes a command before its entry is committed, and members change")
		}
	case peerv1.Kind_GATHER:
		err = l.begin(h.Shard).asks(h, m.Timestamp)
	}
	if err != nil {
		return fmt.Errorf("member %d, shard %d: %w", h.Member, h.Shard, err)
	}
	return nil
}

// Settles judges that who has settled in a view has a state after an entry of that view: the leader that made the entry
// has all that was committed in earlier views.
func (l *Logs) Settles(h *Holder) error {
	if l.group(h.Shard) == nil {
		return nil
	}
	if e := field.Number(h.Records[raftApplied], appliedEpoch); e < h.View.Epoch {
		return fmt.Errorf("member %d, shard %d: has settled in epoch %d, and its state is after entries of epoch %d "+
			"at most", h.Member, h.Shard, h.View.Epoch, e)
	}
	return nil
}

// raftMessage is what is judged of a message of the library.
type raftMessage struct {
	kind                                            raftpb.MessageType
	to, from, term, logTerm, index, commit, snapped uint64
	reject                                          bool
	epoch                                           uint64 // of the message that it is in
	raw                                             []byte
}

// Numbers of fields.
const (
	messageEntries = 7
	entryTerm      = 2
	entryIndex     = 3
	entryData      = 4
	entryEpoch     = 1 // of what that data is
	entryRecovered = 3
	appliedIndex   = 1
	appliedTerm    = 2
	appliedEpoch   = 3
	hardTerm       = 1
	appliedServed  = 5
	appliedAuthors = 4
	authorName     = 1
	authorOver     = 2 // RaftAuthor.first_incomplete
	pullAfter      = 1 // RaftPull.after
	pullAbove      = 2
	pullLeast      = 3
)

func readRaft(raw []byte) (raftMessage, error) {
	r := raftMessage{raw: raw}
	err := field.Visit(raw, func(which int, n uint64, part []byte) {
		switch which {
		case 1:
			r.kind = raftpb.MessageType(n)
		case 2:
			r.to = n
		case 3:
			r.from = n
		case 4:
			r.term = n
		case 5:
			r.logTerm = n
		case 6:
			r.index = n
		case 8:
			r.commit = n
		case 9: // Snapshot.metadata.index
			r.snapped = field.Number(field.Part(part, 2), 2)
		case 10:
			r.reject = n != 0
		}
	})
	return r, err
}

// sends judges a message of the library.
func (g *group) sends(l *Logs, h *Holder, r raftMessage, held func(uint64) bool) error {
	switch r.kind {
	case raftpb.MsgVote, raftpb.MsgVoteResp:
		hard, err := h.hard()
		if err != nil {
			return err
		}
		candidate := r.to
		if r.kind == raftpb.MsgVote {
			candidate = r.from
		}
		if r.reject {
			return nil
		}
		if first, voted := g.votes[vote{h.Disk, r.term}]; voted && first != candidate {
			return fmt.Errorf("votes for %d in term %d, and voted for %d there", candidate, r.term, first)
		}
		g.votes[vote{h.Disk, r.term}] = candidate
		if hard.Term < r.term || hard.Term == r.term && hard.Vote != candidate {
			return fmt.Errorf("votes for %d in term %d, and its disk has the vote for %d in term %d", candidate,
				r.term, hard.Vote, hard.Term)
		}
	case raftpb.MsgAppResp:
		hard, err := h.hard()
		if err != nil {
			return err
		}
		if last := l.Last(h); !r.reject && (hard.Term < r.term || hard.Term == r.term && last < r.index) {
			return fmt.Errorf("acknowledges entry %d in term %d, and its disk has the log up to %d, of term %d",
				r.index, r.term, last, hard.Term)
		}
		is := h.term(r.index) // 0: the log begins behind it
		told, known := g.told[entryID{r.index, r.term}]
		if known && !r.reject && hard.Term == r.term && is > 0 && is != told {
			return fmt.Errorf("acknowledges entry %d of term %d, and its disk has that of term %d", r.index, told, is)
		}
		d := l.of(h)
		if err := h.ends(r.index, is); err != nil {
			return err
		}
		return h.ends(d.begins, d.beginsIn)
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if first, led := g.leaders[r.term]; led && first != h.Member {
			return fmt.Errorf("leads in term %d, and %d did", r.term, first)
		}
		g.leaders[r.term] = h.Member
		if err := g.appends(r); err != nil {
			return err
		}
		return g.commits(h, r.term, max(r.commit, r.snapped), held)
	}
	return nil
}

// counts judges that a candidate, and then a leader, counts with the same disks of the others in all of its term: what
// a lost one had said is void, so that who hears of that begins anew, in another term. What was to be said in this term
// already, when a later one began, leaves in the same turn, or once the later term is on the disk.
func (g *group) counts(h *Holder, r raftMessage, known []uint32, turn uint64) error {
	switch r.kind {
	case raftpb.MsgVote, raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
	default:
		return nil
	}
	its := vote{h.Disk, r.term}
	first, spoke := g.disks[its]
	switch {
	case !spoke:
		g.disks[its] = reckoning{known: known}
	case slices.Equal(first.known, known):
	case first.changed == 0:
		first.changed = turn
		g.disks[its] = first
	case first.changed != turn && field.Number(h.Records[raftHard], hardTerm) == r.term:
		return fmt.Errorf("goes on in term %d with the disks %d of the members, and began it with %d", r.term, known,
			first.known)
	}
	return nil
}

// appends judges the entries that a leader tells of: of an index and a term there is one, after one other, and none
// but the first at an index that was committed.
func (g *group) appends(r raftMessage) (err error) {
	before := r.logTerm
	if r.kind != raftpb.MsgApp {
		return nil // it has no entries
	}
	if err := g.overwrites(r.index, before, r.term); err != nil {
		return err
	}
	g.told[entryID{r.index, r.term}] = before
	_ = field.Visit(r.raw, func(which int, _ uint64, part []byte) {
		if which != messageEntries || err != nil {
			return
		}
		id := entryID{field.Number(part, entryIndex), field.Number(part, entryTerm)}
		is := entry{before, field.Part(part, entryData)}
		if first, known := g.entries[id]; !known {
			g.entries[id] = is
			if e := field.Number(is.data, entryEpoch); len(is.data) > 0 && id.term == r.term && e != r.epoch {
				err = fmt.Errorf("appends entry %d of term %d in epoch %d, and the entry names epoch %d", id.index,
					id.term, r.epoch, e)
				return
			}
			if err = replays(is.data); err != nil {
				err = fmt.Errorf("entry %d of term %d %w", id.index, id.term, err)
				return
			}
		} else if first.before != before || !bytes.Equal(first.data, is.data) {
			err = fmt.Errorf("tells of entry %d of term %d, of which there is another one", id.index, id.term)
			return
		}
		before = id.term
		g.told[entryID{id.index, r.term}] = id.term
		err = g.overwrites(id.index, id.term, r.term)
	})
	return err
}

// commits judges what a leader says is committed: the disks of a quorum have it.
func (g *group) commits(h *Holder, by, index uint64, held func(uint64) bool) error {
	if index <= g.commit {
		return nil
	}
	for i := g.commit + 1; i <= index; i++ {
		if term := h.term(i); term > 0 {
			g.committed[i] = commit{term, by}
		}
	}
	g.commit = index
	if !held(index) {
		return fmt.Errorf("tells that entry %d is committed, and no quorum has the log up to there on disk", index)
	}
	return nil
}

// Applied is the entry that the state on a disk is after; 0: there is none, or the protocol has no log.
func (h *Holder) Applied() uint64 { return field.Number(h.Records[raftApplied], appliedIndex) }

// applies judges a member's state: after one entry it says the same everywhere. That it goes on alone, Grows judges.
func (l *Logs) applies(h *Holder) error {
	d, raw := l.of(h), h.Records[raftApplied]
	if bytes.Equal(raw, d.applied) {
		return nil
	}
	index := h.Applied()
	d.applied = raw
	g := l.group(h.Shard)
	if first, known := g.applied[index]; !known {
		g.applied[index] = raw
	} else if !bytes.Equal(first, raw) {
		var applied peerv1.RaftApplied
		_ = applied.UnmarshalVT(raw)
		return fmt.Errorf("its state after entry %d is another one than that of others: %v", index, &applied)
	}
	return nil
}

// Stores judges what a batch of records makes a member's state: it is of no later term than the disk. Who has an entry of
// a term has heard its leader, and votes in no earlier one.
func (l *Logs) Stores(h *Holder, b *protocol.Batch) error {
	if l.group(h.Shard) == nil {
		return nil
	}
	applied, _ := written(b, raftApplied)
	if err := h.savesAnew(b); err != nil {
		return fmt.Errorf("member %d, shard %d: %w", h.Member, h.Shard, err)
	}
	if state, term := field.Number(applied, appliedTerm), field.Number(h.after(b, raftHard), hardTerm); state > term {
		return fmt.Errorf("member %d, shard %d: its state is after an entry of term %d, and its disk of term %d",
			h.Member, h.Shard, state, term)
	}
	return nil
}

// Term is the term of what a disk or a journal of a Raft group has promised.
func Term(records func([]byte) ([]byte, bool)) uint64 {
	raw, _ := records([]byte(raftHard))
	return field.Number(raw, hardTerm)
}
