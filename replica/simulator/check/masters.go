package check

import (
	"encoding/binary"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// The records of a member's disk for a partition, by the first byte of their keys (package store).
const (
	curpOwn     = "P"
	curpEntry   = 'L'
	curpDone    = 'd'
	curpSession = 's'
	curpHorizon = "h"
)

// Masters is what members have said of the logs of partitions, and of what they answered for there.
type Masters struct {
	parts []*partition // by number
}

// partition is what members have said of one.
type partition struct {
	masters map[termOf]view.MemberID // that named entries, or answered; these maps are never ranged over
	bases   map[termOf]uint64        // up to where a term's master first said that its log is synced
	entries map[entryID]string
	held    map[lastOf]uint64
	whole   map[lastOf]bool // it said so
	asked   map[handed]requestOf
	named   map[requestOf]string // what updates ask for, by their ids
	answers map[requestOf]string // that are synced
	serving uint64               // the highest term that has served
}

// termOf is a term of a view: of a record that was lost and made again, two may have one number.
type termOf struct{ term, view uint64 }

// lastOf is a disk in a term.
type lastOf struct {
	disk string
	term termOf
}

type requestOf struct{ session, number uint64 }

func (s *Masters) of(number int) *partition {
	for number >= len(s.parts) {
		s.parts = append(s.parts, &partition{
			masters: map[termOf]view.MemberID{}, bases: map[termOf]uint64{}, entries: map[entryID]string{},
			held: map[lastOf]uint64{}, whole: map[lastOf]bool{}, asked: map[handed]requestOf{}, answers: map[requestOf]string{},
			named: map[requestOf]string{},
		})
	}
	return s.parts[number]
}

// GivesUp notes that an administrator has given up a quorum that was lost, and with it what only that one had: what was
// answered before may be answered in another way.
func (s *Masters) GivesUp() {
	for _, p := range s.parts {
		clear(p.answers)
	}
}

// Serves notes that a member serves a partition in a term, perhaps with a lease to read by, and reports that a
// later term has served before the lease has ended.
func (s *Masters) Serves(member view.MemberID, number int, term uint64, leased bool) error {
	p := s.of(number)
	if leased && term < p.serving {
		return fmt.Errorf("member %d has a lease for term %d of partition %d, and term %d has served", member,
			term, number, p.serving)
	}
	p.serving = max(p.serving, term)
	return nil
}

// Sends holds a message that leaves a member against its disk and those of the backups of its view, and against
// what others have said. Disk finds the disk of a member that has the one of the view; else it returns nil.
func (s *Masters) Sends(h *Holder, to view.MemberID, m *peerv1.Message, part view.Partition,
	disk func(view.MemberID) *Holder) error {
	if m.Curp == nil {
		return nil
	}
	j := &mastersMessage{partition: s.of(h.Shard), h: h, c: m.Curp, at: termOf{m.Curp.Term, m.Curp.View},
		part: part, disk: disk}
	if err := j.judge(to, m); err != nil {
		return fmt.Errorf("member %d, partition %d, term %d: %w", h.Member, h.Shard, j.at.term, err)
	}
	return nil
}

// mastersMessage is one that is judged.
type mastersMessage struct {
	*partition
	h    *Holder
	c    *peerv1.Curp
	at   termOf
	part view.Partition
	disk func(view.MemberID) *Holder
}

func (j *mastersMessage) judge(to view.MemberID, m *peerv1.Message) error {
	c := j.c
	switch m.Kind {
	case peerv1.Kind_UPDATE:
		return j.asks(m)
	case peerv1.Kind_SYNC:
		if err := j.leads(); err != nil {
			return err
		}
		for _, e := range c.Entries {
			raw, err := e.MarshalVT()
			if err != nil {
				return err
			}
			id := entryID{e.Index, e.Term}
			if first, known := j.entries[id]; known && first != string(raw) {
				return fmt.Errorf("it tells of entry %d of term %d, of which there is another one", id.index, id.term)
			}
			j.entries[id] = string(raw)

		}
		if n := len(c.Entries); n > 0 {
			if told, last := c.Entries[n-1].Index, j.h.curpLast(); told > last {
				return fmt.Errorf("it tells of entry %d, and its disk has the log up to %d", told, last)
			}
		}
		if base, known := j.bases[j.at]; known && c.Commit > base && !j.h.curpServed(c.Term) {
			return fmt.Errorf("it says that entry %d is synced, beyond what was when its term began, and does not "+
				"serve yet", c.Commit)
		}
		return j.synced(c.Commit)
	case peerv1.Kind_SYNC_REPLY:
		return j.holds()
	case peerv1.Kind_COPY_PAGE:
		return j.gives()
	case peerv1.Kind_UPDATE_REPLY:
		if c.Refused {
			return nil
		}
		if err := j.serves(); err != nil {
			return err
		}
		id, known := j.asked[handed{to, m.Op}]
		if !known || c.Answer == nil || c.Answer.Expired {
			return nil
		}
		return j.replies(id)
	case peerv1.Kind_MASTER_READ_REPLY:
		if c.Refused {
			return nil
		}
		if err := j.serves(); err != nil {
			return err
		}
		return j.synced(c.Commit)
	}
	return nil
}

// asks judges an update: an id names one request, since the master answers what comes under the id of another one as
// that.
func (j *mastersMessage) asks(m *peerv1.Message) error {
	r := j.c.GetRequest()
	c := r.GetCommand()
	id := requestOf{c.GetSession(), c.GetNumber()}
	j.asked[handed{j.h.Member, m.Op}] = id
	request := fmt.Sprintf("%q = %v %q, %s(%q)", r.GetKey(), r.GetPresent(), r.GetValue(), c.GetFunction(), c.GetArgs())
	if first, known := j.named[id]; known && first != request {
		return fmt.Errorf("it asks for %s under the id %d#%d, which it has had for %s", request, id.session, id.number, first)
	}
	j.named[id] = request
	return nil
}

// leads judges that a term has one master, which the view names.
func (j *mastersMessage) leads() error {
	if first, known := j.masters[j.at]; known && first != j.h.Member || j.part.Master != j.h.Member {
		return fmt.Errorf("it speaks as the master, and the view names %d, and %d did before", j.part.Master, first)
	}
	j.masters[j.at] = j.h.Member
	return nil
}

// serves judges that who answers is the master of its term, and that its disk knows that this serves: else nobody would
// recover from what is answered, once the process has stopped.
func (j *mastersMessage) serves() error {
	if err := j.leads(); err != nil {
		return err
	}
	return j.h.Served(j.at.term)
}

// holds judges what a backup says to have: its disk has it, and it is no less than it said before. A learner that
// falls behind the master's log drops what it has, and begins anew.
func (j *mastersMessage) holds() error {
	c, own, at := j.c, j.h.curpOwn(), lastOf{j.h.Disk, j.at}
	if was := j.whole[at]; !c.Lacking && !was {
		if err := j.h.whole(c.Last); err != nil {
			return err
		}
	}
	j.whole[at] = !c.Lacking
	if n := len(own.GetHistory()); n > 0 && c.Granted != 0 && own.Term == c.Term && j.part.Master != j.h.Member {
		if begins, last := own.History[n-1], j.h.curpLast(); begins.Start > last {
			return fmt.Errorf("it follows term %d, and its log, which ends with entry %d, names entries of term %d "+
				"from %d on", c.Term, last, begins.Term, begins.Start)
		}
	}
	if c.Lacking || !slices.Contains(j.part.Backups, j.h.Member) {
		delete(j.held, at)
		return nil
	}
	if last := j.h.curpLast(); own.GetTerm() < c.Term || last < c.Last || own.GetWholeTerm() < c.WholeTerm {
		return fmt.Errorf("it says to hold entry %d, and what term %d recovered; its disk has entry "+
			"%d of term %d, and what %d recovered", c.Last,
			c.WholeTerm, last, own.GetTerm(), own.GetWholeTerm())
	}
	if before := j.held[at]; c.Last < before {
		return fmt.Errorf("it says to hold entry %d, and held entry %d", c.Last, before)
	}
	j.held[at] = c.Last
	return nil
}

// gives judges a page of a copy: the state that it is of is on the disk of who gives it, unless that has gone on to a
// later term, or has begun to copy a state itself.
func (j *mastersMessage) gives() error {
	own := j.h.curpOwn()
	if j.c.Refused || own.GetTerm() > j.at.term || own.GetCopying() || own.GetApplied() >= j.c.Last {
		return nil
	}
	return fmt.Errorf("it gives a page of the state after entry %d, and its disk has the state after entry %d", j.c.Last,
		own.GetApplied())
}

// synced judges what a master says that all backups hold, beyond what it had said when its term began.
func (j *mastersMessage) synced(commit uint64) error {
	base, known := j.bases[j.at]
	if !known || commit < base {
		j.bases[j.at] = commit
		return nil
	}
	if commit == base {
		return nil
	}
	for _, id := range j.part.Backups {
		if b := j.disk(id); b != nil && b.curpLast() < commit {
			return fmt.Errorf("it says that entry %d is synced, and the disk of its backup %d has "+
				"the log up to %d", commit, id, b.curpLast())
		}
	}
	return nil
}

// replies judges an answer to an update: what is synced is on the disks of all backups, and never answered in
// another way; what is not is on the master's own disk, unless it has no backups and witnesses hide that.
func (j *mastersMessage) replies(id requestOf) error {
	if !j.c.Synced {
		if len(j.part.Backups) > 0 && !j.h.curpKnows(id) {
			return fmt.Errorf("it answers request %d#%d, which is not on its disk", id.session, id.number)
		}
		return nil
	}
	answer := fmt.Sprintf("%v %q %q", j.c.Answer.Present, j.c.Answer.Value, j.c.Answer.Refused)
	if first, known := j.partition.answers[id]; known && first != answer {
		return fmt.Errorf("it answers request %d#%d with %s, and the answer was %s", id.session, id.number, answer,
			first)
	}
	j.partition.answers[id] = answer
	holders := j.part.Backups
	if len(holders) == 0 {
		holders = []view.MemberID{j.h.Member}
	}
	for _, m := range holders {
		if d := j.disk(m); d != nil && !d.curpKnows(id) {
			return fmt.Errorf("it says that request %d#%d is synced, which is not on the disk of member %d",
				id.session, id.number, m)
		}
	}
	return nil
}

// curpOwn is what the disk says of the member's part.
func (h *Holder) curpOwn() *peerv1.PartitionRecord {
	own := &peerv1.PartitionRecord{}
	if own.UnmarshalVT(h.Records[curpOwn]) != nil {
		return nil
	}
	return own
}

// Numbers of fields of PartitionRecord and LogEntry.
const (
	partitionServed = 3
	partitionFloor  = 6
	entryOfTerm     = 1
	entrySession    = 4
	entryNumber     = 5
)

// curpServed reports whether the disk's member has served in a term as the master: what is synced there may not be in
// the log of a later master before that.
func (h *Holder) curpServed(term uint64) bool {
	return field.Number(h.Records[curpOwn], partitionServed) >= term
}

// Served reports that the disk's member has not noted that it serves in a term.
func (h *Holder) Served(term uint64) error {
	if h.curpServed(term) {
		return nil
	}
	return fmt.Errorf("it answers in term %d, and its disk does not know that this serves", term)
}

// curpFloor is the index of the entry that the disk's log begins after.
func (h *Holder) curpFloor() uint64 { return field.Number(h.Records[curpOwn], partitionFloor) }

func (h *Holder) curpEntry(index uint64) []byte { return h.numbered(curpEntry, index) }

// curpLast is the index of the last entry of the disk's log.
func (h *Holder) curpLast() uint64 {
	last := h.curpFloor()
	for h.curpEntry(last+1) != nil {
		last++
	}
	return last
}

func sessionKey(session uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{curpSession}, session)
}

func doneKey(session, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{curpDone}, session), number)
}

// curpKnows reports whether the disk has a request: its answer, or an entry of the log, unless its client has
// acknowledged it or its session is forgotten.
func (h *Holder) curpKnows(id requestOf) bool {
	raw, there := h.Records[string(sessionKey(id.session))]
	if !there && len(h.Records[curpHorizon]) > 0 {
		return true
	}
	var session peerv1.PartitionSession
	if session.UnmarshalVT(raw) == nil && session.FirstIncomplete > id.number {
		return true
	}
	if _, there := h.Records[string(doneKey(id.session, id.number))]; there {
		return true
	}
	for i := h.curpFloor() + 1; ; i++ {
		raw := h.curpEntry(i)
		if raw == nil {
			return false
		}
		if field.Number(raw, entrySession) == id.session && field.Number(raw, entryNumber) == id.number {
			return true
		}
	}
}
