package check

import (
	"cmp"
	"fmt"
	"slices"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/core"
)

// Witness is what a witness was asked and has answered on one disk. What it has answered for, a process that starts
// on that disk knows: the requests that it saved, until they are dropped, and which lives have begun, have ended,
// or accept nothing any more.
type Witness struct {
	disk  string
	lives []*lifePromises // in the order in which something was promised of them

	// Of the present process.
	start   uint64
	memory  *core.Witness           // one without a disk, that is asked the same
	durable *core.Witness           // what the log on disk makes
	asked   map[question]*asked     // these maps are never ranged over
	vouched map[voucher][]uint32    // the members that have vouched
	trusted map[uint32]bool         // the partitions that enough have vouched for
	outdone error                   // what it has to stop for
	pages   map[gathering][]savedID // of requests, as they were told to who gathers them
}

// lifePromises are what a witness has answered for of its time in a term of a partition.
type lifePromises struct {
	partition            uint32
	term                 uint64
	begun, frozen, ended bool
	ending               bool // it was told to end: what it held may be gone
	saved                []savedID
	dropped              map[savedID]bool // requests that a master had it drop; never ranged over
}

// savedID names a saved request, which is about one key.
type savedID struct {
	session, number uint64
	hash            uint64
}

func (s savedID) compare(o savedID) int {
	return cmp.Or(cmp.Compare(s.session, o.session), cmp.Compare(s.number, o.number), cmp.Compare(s.hash, o.hash))
}

type question struct {
	from, partition uint32
	kind            witnessv1.Kind // of its answer
	op              uint64
}

// asked is what its answer does not repeat of a question.
type asked struct {
	request savedID
	missing bool   // there was no such life
	serves  bool   // START: there was, on the disk that is meant, and it accepts requests
	highest uint64 // of the lives that there were of the partition
}

type voucher struct {
	partition uint32
	view      uint64
}

type gathering struct {
	from, partition uint32
	term            uint64
}

// Begins notes that a process starts, on the records of the disk, and reports what it does not know that earlier
// ones have answered for. The disk may be an older copy, which has forgotten some of that. Restored makes a witness
// of records.
func (w *Witness) Begins(disk string, older bool, start uint64, log [][]byte,
	restored func([][]byte) (*core.Witness, error)) error {
	if w.disk != disk || older {
		*w = Witness{disk: disk}
	}
	w.start, w.outdone = start, nil
	w.asked, w.vouched, w.trusted = map[question]*asked{}, map[voucher][]uint32{}, map[uint32]bool{}
	w.pages = map[gathering][]savedID{}
	var err error
	if w.memory, err = core.New(core.Config{Slots: 64, Disk: disk, Volatile: true}); err != nil {
		return err
	}
	made, err := restored(log)
	if err != nil {
		return err
	}
	if err := w.keeps(made); err != nil {
		return fmt.Errorf("after a restart: %w", err)
	}
	if w.durable, err = restored(log); err != nil {
		return err
	}
	compact, err := restored(w.durable.Snapshot())
	if err != nil {
		return err
	}
	if err := w.keeps(compact); err != nil {
		return fmt.Errorf("after a restart from its compacted log: %w", err)
	}
	return w.agesKept(made, log, restored)
}

// agesKept reports a request whose age a compacted log does not keep. Listed is a witness of the log that tells which
// requests there are: who gathers them freezes its lives.
func (w *Witness) agesKept(listed *core.Witness, log [][]byte, restored func([][]byte) (*core.Witness, error)) error {
	whole, err := restored(log)
	if err != nil {
		return err
	}
	other, err := restored(whole.Snapshot())
	if err != nil {
		return err
	}
	for _, l := range w.durable.Lives() {
		if l.Frozen || l.Held == 0 {
			continue
		}
		held := gather(listed, &lifePromises{partition: l.Partition, term: l.Term})
		if err := sameSuspects(whole, other, l, held); err != nil {
			return err
		}
	}
	return nil
}

// Durable notes that records are on the disk.
func (w *Witness) Durable(records [][]byte) error {
	for _, r := range records {
		if err := w.durable.Restore(r); err != nil {
			return err
		}
	}
	return nil
}

// keeps reports what a witness does not know that was promised on its disk. The witness is of no use afterwards:
// what it saved is gathered from it.
func (w *Witness) keeps(made *core.Witness) error {
	lives := made.Lives()
	for _, p := range w.lives {
		i := slices.IndexFunc(lives, func(l core.Life) bool { return l.Partition == p.partition && l.Term == p.term })
		switch {
		case p.ended && i >= 0:
			return p.errorf("has ended, and is there again")
		case p.ended, i < 0 && p.frozen && !p.begun:
			if accepts(made, w.disk, p) {
				return p.errorf("has ended or was never to begin, and begins")
			}
			if p.ended && p.begun && gathers(made, w.disk, p) {
				return p.errorf("has ended, and who recovers from it hears that nothing was saved in it")
			}
			if told := namedBy(made, p); told < w.highest(p.partition) {
				return p.errorf("is not there, and who asks for it hears of term %d, and not of %d", told,
					w.highest(p.partition))
			}
			continue
		case p.ending:
			continue
		case i < 0:
			if !p.begun {
				continue // a crash took back what was not answered yet
			}
			return p.errorf("has begun, and is gone")
		case p.frozen && !lives[i].Frozen:
			return p.errorf("was gathered, and accepts requests again")
		}
		held := gather(made, p)
		for _, s := range p.saved {
			if !slices.Contains(held, s) {
				return p.errorf("has lost the request %d#%d, which it had saved", s.session, s.number)
			}
		}
	}
	return nil
}

func (p *lifePromises) errorf(format string, args ...any) error {
	return fmt.Errorf("the life of term %d of partition %d %w", p.term, p.partition, fmt.Errorf(format, args...))
}

// accepts reports whether a witness would begin a life.
func accepts(made *core.Witness, disk string, p *lifePromises) bool {
	made.Receive(core.Manager, &witnessv1.Message{Kind: witnessv1.Kind_START, Partition: p.partition, Term: p.term,
		Disk: disk})
	e := made.Ready()
	return slices.ContainsFunc(slices.Concat(e.Send, e.After),
		func(a core.Envelope) bool { return a.Message.Accepted })
}

// gathers reports whether a witness answers who recovers from a life on this very disk.
func gathers(made *core.Witness, disk string, p *lifePromises) bool {
	made.Receive(1, &witnessv1.Message{Kind: witnessv1.Kind_RECOVERY_DATA, Partition: p.partition, Term: p.term,
		Disk: disk})
	e := made.Ready()
	return slices.Concat(e.Send, e.After)[0].Message.Accepted
}

// highest is the highest term of a partition of which something was promised that is never forgotten.
func (w *Witness) highest(partition uint32) (term uint64) {
	for _, p := range w.lives {
		if p.partition == partition && (p.begun || p.ended) {
			term = max(term, p.term)
		}
	}
	return term
}

// namedBy is the term that a witness names who asks for a life that is not there.
func namedBy(made *core.Witness, p *lifePromises) uint64 {
	made.Receive(1, &witnessv1.Message{Kind: witnessv1.Kind_CHECK, Partition: p.partition, Term: p.term,
		Hashes: []uint64{0}})
	e := made.Ready()
	return slices.Concat(e.Send, e.After)[0].Message.Term
}

// gather is what a witness tells a master that recovers from a life.
func gather(made *core.Witness, p *lifePromises) (held []savedID) {
	for {
		made.Receive(1, &witnessv1.Message{
			Kind: witnessv1.Kind_RECOVERY_DATA, Partition: p.partition, Term: p.term, Offset: uint64(len(held)),
		})
		e := made.Ready()
		answer := slices.Concat(e.Send, e.After)[0].Message
		held = append(held, savedOf(answer.Requests)...)
		if answer.Last || len(answer.Requests) == 0 {
			return held
		}
	}
}

func savedOf(requests []*witnessv1.Request) (all []savedID) {
	for _, r := range requests {
		all = append(all, savedID{r.GetId().GetSession(), r.GetId().GetNumber(), slices.Concat(r.Hashes,
			[]uint64{0})[0]})
	}
	return all
}

// of finds what was promised of a life, or begins to note it.
func (w *Witness) of(partition uint32, term uint64) *lifePromises {
	for _, p := range w.lives {
		if p.partition == partition && p.term == term {
			return p
		}
	}
	p := &lifePromises{partition: partition, term: term, dropped: map[savedID]bool{}}
	w.lives = append(w.lives, p)
	return p
}

// Asks notes what a witness is about to be asked. One without a disk answers the same question at once.
func (w *Witness) Asks(from uint32, m *witnessv1.Message, core *core.Witness) error {
	if w.start != 0 && !core.Doubts(m.Partition) && !w.trusted[m.Partition] {
		return fmt.Errorf("it trusts its disk in partition %d, and no majority has vouched for it since it started",
			m.Partition)
	}
	w.note(from, m, core)
	w.memory.Receive(from, m)
	if e := w.memory.Ready(); len(e.Persist)+len(e.After) > 0 {
		return fmt.Errorf("without a disk it has %d records for it, and %d answers wait for that: %v",
			len(e.Persist), len(e.After), m.Kind)
	}
	return nil
}

func (w *Witness) note(from uint32, m *witnessv1.Message, core *core.Witness) {
	switch m.Kind {
	case witnessv1.Kind_VOUCH:
		w.vouches(from, m, core)
		return
	case witnessv1.Kind_RECORD, witnessv1.Kind_CHECK, witnessv1.Kind_RECOVERY_DATA, witnessv1.Kind_START:
	case witnessv1.Kind_END:
		if from == 0 {
			p := w.of(m.Partition, m.Term)
			p.ending, p.saved = true, nil
		}
		return
	case witnessv1.Kind_GC:
		for _, d := range m.Drops {
			w.drops(m, savedID{d.GetId().GetSession(), d.GetId().GetNumber(), d.Hash})
		}
	default:
		return
	}
	q := &asked{missing: true}
	if len(m.Hashes) == 1 {
		q.request = savedID{m.Id.GetSession(), m.Id.GetNumber(), m.Hashes[0]}
	}
	for _, l := range core.Lives() {
		if l.Partition == m.Partition {
			q.missing, q.highest = q.missing && l.Term != m.Term, max(q.highest, l.Term)
			q.serves = q.serves || l.Term == m.Term && !l.Frozen && m.Disk == w.disk
		}
	}
	w.asked[question{from, m.Partition, m.Kind + 1, m.Op}] = q
}

// drops notes that a request may be gone. Answers that it was saved may leave later, and say nothing any more.
func (w *Witness) drops(m *witnessv1.Message, s savedID) {
	p := w.of(m.Partition, m.Term)
	p.saved = slices.DeleteFunc(p.saved, func(o savedID) bool { return o == s })
	p.dropped[s] = true
}

// vouches notes what a member says of the witness's disk.
func (w *Witness) vouches(from uint32, m *witnessv1.Message, core *core.Witness) {
	switch {
	case w.start == 0 || m.Start != w.start || m.Disk != w.disk || m.Voters == 0 || w.trusted[m.Partition]:
	case m.Promises > core.Promises(m.Partition):
		if w.outdone == nil {
			w.outdone = fmt.Errorf("member %d has heard of %d promises of partition %d, and it knows of %d", from,
				m.Promises, m.Partition,
				core.Promises(m.Partition))
		}
	default:
		of := voucher{m.Partition, m.View}
		if !slices.Contains(w.vouched[of], from) {
			w.vouched[of] = append(w.vouched[of], from)
		}
		w.trusted[m.Partition] = 2*len(w.vouched[of]) > int(m.Voters)
	}
}

// Goes reports that a witness goes on whose disk is known to be an older copy of what it was.
func (w *Witness) Goes() error {
	if w.outdone != nil {
		return fmt.Errorf("it goes on, and %w", w.outdone)
	}
	return nil
}

// Answers notes what leaves, and reports what the disk does not bear out, or contradicts what was said before.
func (w *Witness) Answers(to uint32, m *witnessv1.Message) error {
	q := w.asked[question{to, m.Partition, m.Kind, m.Op}]
	delete(w.asked, question{to, m.Partition, m.Kind, m.Op})
	switch m.Kind {
	case witnessv1.Kind_RECORD_REPLY, witnessv1.Kind_GC_REPLY, witnessv1.Kind_CHECK_REPLY,
		witnessv1.Kind_RECOVERY_DATA_REPLY,
		witnessv1.Kind_START_REPLY, witnessv1.Kind_END_REPLY:
	default:
		return nil
	}
	if !m.Accepted {
		if err := refusesWell(m, q); err != nil {
			return err
		}
		if q != nil && q.missing && m.Start == 0 && m.Term < q.highest {
			return fmt.Errorf("a question of member %d for a life that is not there is answered "+
				"with term %d, and there is one of %d", to, m.Term, q.highest)
		}
		return nil
	}
	if told := m.Promises; told > w.durable.Promises(m.Partition) {
		return fmt.Errorf("it tells of %d promises of partition %d, and its disk has %d", told, m.Partition,
			w.durable.Promises(m.Partition))
	}
	if manages := m.Kind == witnessv1.Kind_START_REPLY || m.Kind == witnessv1.Kind_END_REPLY; w.start != 0 &&
		!manages && !w.trusted[m.Partition] {
		return fmt.Errorf("it answers for partition %d, and no majority has vouched for its disk", m.Partition)
	}
	p, i := w.of(m.Partition, m.Term), -1
	var lives []core.Life // on disk
	if m.Kind != witnessv1.Kind_RECORD_REPLY && m.Kind != witnessv1.Kind_CHECK_REPLY {
		lives = w.durable.Lives()
		i = slices.IndexFunc(lives, func(l core.Life) bool { return l.Partition == m.Partition && l.Term == m.Term })
	}
	switch m.Kind {
	case witnessv1.Kind_START_REPLY:
		p.begun = true
		if i < 0 && !p.ending {
			return p.errorf("is said to have begun, and is not on disk")
		}
	case witnessv1.Kind_END_REPLY:
		p.ended, p.saved = true, nil
		if i >= 0 {
			return p.errorf("is said to have ended, and is still on disk")
		}
	case witnessv1.Kind_RECORD_REPLY, witnessv1.Kind_CHECK_REPLY:
		if p.frozen {
			return p.errorf("was gathered, and accepts a request (%v)", m.Kind)
		}
		if m.Kind == witnessv1.Kind_RECORD_REPLY && q != nil && !p.ending && !p.dropped[q.request] &&
			!slices.Contains(p.saved, q.request) {
			p.saved = append(p.saved, q.request)
			if !w.holds(p, q.request.hash) {
				return p.errorf("is said to have saved request %d#%d, which is not on disk", q.request.session,
					q.request.number)
			}
		}
	case witnessv1.Kind_RECOVERY_DATA_REPLY:
		p.frozen = true
		switch {
		case p.begun && p.ended:
			return p.errorf("has ended, and is gathered")
		case p.ending:
		case i < 0:
			if told := namedBy(w.durable, p); told < p.term || !m.Last {
				return p.errorf("is gathered and never began, and its disk knows of term %d; that is all: %v", told, m.Last)
			}
		case !lives[i].Frozen:
			return p.errorf("is gathered, and is not known on disk to accept nothing any more")
		case m.Last != (m.Offset+uint64(len(m.Requests)) >= uint64(lives[i].Held)):
			return p.errorf("is gathered, behind %d requests %d of %d, and that is all: %v", m.Offset, len(m.Requests),
				lives[i].Held, m.Last)
		}
		return w.gathers(to, p, m)
	}
	return nil
}

// holds reports whether the disk has a request about a key.
func (w *Witness) holds(p *lifePromises, hash uint64) bool {
	w.durable.Receive(1, &witnessv1.Message{Kind: witnessv1.Kind_CHECK, Partition: p.partition, Term: p.term,
		Hashes: []uint64{hash}})
	e := w.durable.Ready()
	return !slices.Concat(e.Send, e.After)[0].Message.Accepted
}

// gathers notes a page of what a life holds, and reports what all pages lack once the last has left.
func (w *Witness) gathers(to uint32, p *lifePromises, m *witnessv1.Message) error {
	g := gathering{to, p.partition, p.term}
	told, begun := w.pages[g]
	if m.Offset == 0 {
		told, begun = nil, true
	}
	if !begun {
		return nil // the first pages came from an earlier process
	}
	w.pages[g] = append(told, savedOf(m.Requests)...)
	if !m.Last {
		return nil
	}
	for _, s := range p.saved {
		if !slices.Contains(w.pages[g], s) {
			return p.errorf("is gathered without the request %d#%d, which it had saved", s.session, s.number)
		}
	}
	return nil
}
