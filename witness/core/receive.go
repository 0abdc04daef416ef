package core

import (
	"bytes"
	"fmt"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/cache"
)

// Why a question is refused, for people.
const (
	refusedNoLife  = "this witness has no life for the term: it ended, never began here, or was on a lost disk"
	refusedFrozen  = "this life is in recovery mode and accepts nothing any more"
	refusedManager = "only the manager begins and ends lives"
	refusedMember  = "the manager begins and ends lives, and asks which there are, and nothing else"
	refusedLives   = "only the manager asks which lives there are"
	refusedLarge   = "the request is larger than 2 KiB"
	refusedHashes  = "give the hash of one key, no more and no less"
	refusedID      = "the request has no id"
	refusedOther   = "another request was saved under this id"
	refusedMemory  = "the memory for saved requests is used up (memory)"
	refusedDrops   = "more than 65536 drops; send them in several GC messages"
	refusedTerm    = "term: give one from 1 to 2^48; no changes can have led to a larger one"
	refusedDoubt   = "the witness has just started, and waits for members to tell it that its disk is not an " +
		"older copy"
	refusedNumber = "partition: give one from 0 to 65535"
)

// Receive takes a question; what is no question is counted and ignored. The message isn't kept.
func (w *Witness) Receive(from uint32, m *witnessv1.Message) { w.ReceiveOn(from, 0, m) }

// ReceiveOn is Receive from an asker with several streams: the answer names the one it belongs to.
func (w *Witness) ReceiveOn(from, stream uint32, m *witnessv1.Message) {
	var reply witnessv1.Kind
	switch m.GetKind() {
	case witnessv1.Kind_VOUCH:
		w.vouch(from, m)
		return
	case witnessv1.Kind_RECORD, witnessv1.Kind_GC, witnessv1.Kind_RECOVERY_DATA, witnessv1.Kind_START,
		witnessv1.Kind_END, witnessv1.Kind_CHECK, witnessv1.Kind_LIVES, witnessv1.Kind_PING:
		reply = m.Kind + 1
	default:
		w.stats.Ignored++
		return
	}
	answer := w.answer()
	answer.Kind, answer.Op, answer.Partition, answer.Term = reply, m.Op, m.Partition, m.Term
	wait := false
	if m.Kind == witnessv1.Kind_LIVES || m.Kind == witnessv1.Kind_PING {
		w.tell(from, m, answer)
	} else if refused := refuse(from, m); refused != "" {
		w.refuse(answer, refused)
	} else if m.Kind == witnessv1.Kind_START || m.Kind == witnessv1.Kind_END {
		wait = w.manage(m, answer)
	} else if w.Doubts(m.Partition) {
		answer.Start = w.config.Start
		w.refuse(answer, refusedDoubt)
	} else if l, highest := w.find(m.Partition, m.Term); l == nil && w.neverBegan(m) {
		wait = w.bar(m, answer, highest)
	} else if l == nil {
		answer.Term = highest // so that the asker learns of it, if it is behind
		w.refuse(answer, refusedNoLife)
	} else {
		wait = w.ask(l, m, answer)
	}
	envelope := Envelope{To: from, Stream: stream, Message: answer}
	if wait && !w.config.Volatile {
		w.effects.After = append(w.effects.After, envelope)
	} else {
		w.effects.Send = append(w.effects.Send, envelope)
	}
}

// refuse is why a question is refused by everybody; empty if it isn't.
func refuse(from uint32, m *witnessv1.Message) string {
	manages, saves := m.Kind == witnessv1.Kind_START || m.Kind == witnessv1.Kind_END, m.Kind == witnessv1.Kind_RECORD
	switch {
	case manages && from != Manager:
		return refusedManager
	case !manages && from == Manager:
		return refusedMember
	case m.Partition >= maxPartitions:
		return refusedNumber
	case m.Term == 0 || m.Term > witnessv1.MaxTerm:
		return refusedTerm
	case len(m.Drops) > maxDrops:
		return refusedDrops
	case len(m.Hashes) != 1 && (saves || m.Kind == witnessv1.Kind_CHECK):
		return refusedHashes
	case saves && len(m.Request) > cache.MaxRequest:
		return refusedLarge
	case saves && m.Id == nil:
		return refusedID
	}
	return ""
}

func (w *Witness) refuse(answer *witnessv1.Message, why string) {
	answer.Refused = why
	w.stats.Refused++
}

// tell answers what concerns no life, at once. A crash may take back a life that LIVES told of, or bring back one that
// it did not: the manager asks again and again, and neither promises anything.
func (w *Witness) tell(from uint32, m, answer *witnessv1.Message) {
	switch {
	case m.Kind == witnessv1.Kind_PING:
		answer.Accepted = true
	case from != Manager:
		w.refuse(answer, refusedLives)
	default:
		answer.Accepted, answer.Disk = true, w.config.Disk
		for _, l := range w.Lives() {
			answer.Lives = append(answer.Lives,
				&witnessv1.Life{Partition: l.Partition, Term: l.Term, Frozen: l.Frozen, Held: uint32(l.Held)})
		}
	}
}

// answer is an empty message.
func (w *Witness) answer() *witnessv1.Message {
	if n := len(w.unused); n > 0 {
		m := w.unused[n-1]
		w.unused = w.unused[:n-1]
		return m
	}
	return &witnessv1.Message{}
}

// ask serves a question to a life, and reports whether the answer waits for the disk.
func (w *Witness) ask(l *life, m, answer *witnessv1.Message) (wait bool) {
	if l.frozen && m.Kind != witnessv1.Kind_RECOVERY_DATA {
		w.refuse(answer, refusedFrozen)
		return false
	}
	switch m.Kind {
	case witnessv1.Kind_RECORD:
		return w.save(l, m, answer)
	case witnessv1.Kind_GC:
		w.collect(l, m, answer)
		return false // a record that a crash brings back is garbage, and will be suspected to be
	case witnessv1.Kind_RECOVERY_DATA:
		w.recover(l, m, answer)
		return true
	}
	w.stats.Checks++
	answer.Accepted = !l.cache.Holds(m.Hashes[0])
	return false // it says nothing that a crash could take back: what is not durable yet counts as saved
}

func (w *Witness) save(l *life, m, answer *witnessv1.Message) (wait bool) {
	held, s := l.cache.Held(), cache.Saved{ID: identity(m.Id), Hash: m.Hashes[0], Request: m.Request}
	follows := cache.ID{}
	if m.Follows != nil {
		follows = identity(m.Follows)
	}
	switch l.cache.Save(s.ID, s.Hash, s.Request, follows) {
	case cache.Accepted:
		answer.Accepted = true
		w.stats.Accepted++
		if held != l.cache.Held() {
			w.persist(appendSaved(w.effects.memory, l, s))
			w.promise(l.number)
		}
		answer.Promises = w.Promises(l.number)
		return true // also for one that is held already: it may not be durable yet
	case cache.Conflict:
		w.stats.Conflicts++
	case cache.Full:
		w.stats.Full++
	case cache.NoMemory:
		w.refuse(answer, refusedMemory)
	case cache.Different:
		w.refuse(answer, refusedOther)
	}
	return false
}

func (w *Witness) collect(l *life, m, answer *witnessv1.Message) {
	record := appendHead(w.effects.memory, recordDropped, l.number, l.term)
	for _, d := range m.Drops {
		if d.GetId() != nil && l.cache.Drop(d.Hash, identity(d.Id)) {
			w.stats.Dropped++
			record = appendDropped(record, d.Hash, identity(d.Id))
		}
	}
	w.persist(record)
	l.cache.AddRound()
	w.stats.Collections++
	answer.Accepted = true
	page := page{answer: answer}
	l.cache.TakeSuspects(func(s cache.Saved) bool {
		w.stats.Suspects++
		page.add(s)
		return page.hasRoom()
	})
}

// recover freezes a life and answers with a page of what it holds.
func (w *Witness) recover(l *life, m, answer *witnessv1.Message) {
	if !l.frozen {
		l.frozen = true
		w.persistPromise(recordFrozen, l.number, l.term)
	}
	if l.order == nil {
		l.order = l.cache.Order()
	}
	answer.Accepted, answer.Promises = true, w.Promises(l.number)
	answer.Offset = m.Offset
	page := page{answer: answer}
	rest := l.order[min(m.Offset, uint64(len(l.order))):]
	for len(rest) > 0 && page.hasRoom() {
		page.add(l.cache.At(rest[0]))
		rest = rest[1:]
	}
	answer.Last = len(rest) == 0
}

// neverBegan reports whether a recovery asks for a life that this witness was to have, and has never begun on this very
// disk.
func (w *Witness) neverBegan(m *witnessv1.Message) bool {
	return m.Kind == witnessv1.Kind_RECOVERY_DATA && m.Disk != "" && m.Disk == w.config.Disk &&
		m.Term > w.partition(m.Partition).ended
}

// bar sees to it that a life never begins, and answers that nothing was saved in it: a master may be lost before the
// START of its term has come here, and nobody else might be there to recover from.
func (w *Witness) bar(m, answer *witnessv1.Message, highest uint64) (wait bool) {
	if m.Term > highest {
		w.raise(m.Partition, m.Term)
		w.persistPromise(recordBarred, m.Partition, m.Term)
	}
	answer.Accepted, answer.Last, answer.Offset, answer.Promises = true, true, m.Offset, w.Promises(m.Partition)
	return true
}

// manage begins or ends a life, and reports whether the answer waits for the disk.
func (w *Witness) manage(m, answer *witnessv1.Message) (wait bool) {
	l, highest := w.find(m.Partition, m.Term)
	why := ""
	switch {
	case m.Kind == witnessv1.Kind_END:
		if l != nil || m.Term > highest {
			w.end(m.Partition, m.Term)
			w.persist(appendHead(w.effects.memory, recordEnded, m.Partition, m.Term))
		}
	case w.config.Disk != "" && m.Disk != w.config.Disk:
		why = fmt.Sprintf("disk: this witness's is %q, not %q, and knows nothing of what was saved there",
			w.config.Disk, m.Disk)
	case l != nil && l.frozen:
		why = refusedFrozen
	case l != nil: // asked again
	case m.Term <= highest:
		answer.Term = highest
		why = fmt.Sprintf("term: %d is not above %d, which was begun or ended here", m.Term, highest)
	default:
		if begun, err := w.begin(m.Partition, m.Term, w.config.Slots, false); err != nil {
			why = err.Error()
		} else {
			w.persist(appendStarted(w.effects.memory, begun))
		}
	}
	if why != "" {
		w.refuse(answer, why)
		return false
	}
	answer.Accepted = true
	return true
}

func identity(id *witnessv1.ID) cache.ID { return cache.ID{Session: id.Session, Number: id.Number} }

// page fills an answer with requests.
type page struct {
	answer *witnessv1.Message
	size   int // about what they take of the message
}

// hasRoom reports whether the page takes another request.
func (p *page) hasRoom() bool { return p.size < pageBytes && len(p.answer.Requests) < pageRequests }

// add copies a request that is held.
func (p *page) add(s cache.Saved) {
	p.answer.Requests = append(p.answer.Requests, &witnessv1.Request{
		Id: &witnessv1.ID{Session: s.ID.Session, Number: s.ID.Number}, Hashes: []uint64{s.Hash},
		Request: bytes.Clone(s.Request),
	})
	p.size += len(s.Request) + 40
}
