package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/cache"
)

// A record is a byte for its kind, the partition and the term, and then what the kind says. Numbers are varints, hashes
// and sessions have 8 bytes. Restored in order, records lead to the same state, since nothing but they change it.
const (
	recordSaved   = 1 // age, 1, hash, session, number, the request up to the end
	recordDropped = 2 // for each dropped hash: hash, session, number; it also counts a round
	recordFrozen  = 3
	recordStarted = 4 // slots, rounds
	recordEnded   = 5
	recordBarred  = 6 // the term never began, and must not any more
	// recordPromises has, instead of the term, how many promises were made in the partition: the records before it may
	// be fewer.
	recordPromises = 7
)

// persist adds a record to what is persisted: it was appended to the memory of the next effects.
func (w *Witness) persist(appended []byte) {
	if w.config.Volatile {
		w.effects.memory = appended[:len(w.effects.memory)] // for the next one
		return
	}
	w.effects.persist(appended)
}

// persist adds a record, which was appended to the memory. Memory that has grown meanwhile leaves earlier records where
// they were.
func (e *Effects) persist(appended []byte) {
	begin, end := len(e.memory), len(appended)
	e.memory = appended
	e.Persist = append(e.Persist, appended[begin:end:end])
}

// persistPromise does so for a record that has a head alone and is a promise.
func (w *Witness) persistPromise(kind byte, partition uint32, term uint64) {
	w.persist(appendHead(w.effects.memory, kind, partition, term))
	w.promise(partition)
}

// promise counts a promise of a partition, whose record is persisted.
func (w *Witness) promise(partition uint32) {
	if !w.config.Volatile {
		w.partitions[partition].promises++
	}
}

func appendHead(b []byte, kind byte, partition uint32, term uint64) []byte {
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(partition))
	return binary.AppendUvarint(b, term)
}

func appendSaved(b []byte, l *life, s cache.Saved) []byte {
	b = appendHead(b, recordSaved, l.number, l.term)
	b = binary.AppendUvarint(b, s.Age)
	b = append(b, 1) // hash
	b = binary.LittleEndian.AppendUint64(b, s.Hash)
	b = binary.LittleEndian.AppendUint64(b, s.ID.Session)
	b = binary.AppendUvarint(b, s.ID.Number)
	return append(b, s.Request...)
}

func appendStarted(b []byte, l *life) []byte {
	b = appendHead(b, recordStarted, l.number, l.term)
	b = binary.AppendUvarint(b, uint64(l.cache.Slots()))
	return binary.AppendUvarint(b, l.cache.Round())
}

func appendDropped(b []byte, hash uint64, id cache.ID) []byte {
	b = binary.LittleEndian.AppendUint64(b, hash)
	b = binary.LittleEndian.AppendUint64(b, id.Session)
	return binary.AppendUvarint(b, id.Number)
}

// reader takes fields off a record.
type reader struct {
	data   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.failed, r.data = true, nil
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) fixed() uint64 {
	if len(r.data) < 8 {
		r.failed, r.data = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint64(r.data)
	r.data = r.data[8:]
	return v
}

// errRecord is a record that no witness wrote.
var errRecord = errors.New("a record of the witness's log has no meaning")

// Restore takes a record that was persisted, in the order of the log, before anything is received. An error means that
// the log is not this witness's work. The record isn't kept.
func (w *Witness) Restore(record []byte) error {
	if len(record) == 0 {
		return errRecord
	}
	r := &reader{data: record[1:]}
	number, term := r.uvarint(), r.uvarint()
	most := uint64(witnessv1.MaxTerm)
	if record[0] == recordPromises {
		most = witnessv1.MaxPromises
	}
	if r.failed || number >= maxPartitions || term == 0 || term > most {
		return errRecord
	}
	if err := w.restore(record[0], uint32(number), term, r); err != nil {
		return fmt.Errorf("%w: kind %d of partition %d in term %d: %w", errRecord, record[0], number, term, err)
	}
	if r.failed || len(r.data) > 0 {
		return errRecord
	}
	return nil
}

func (w *Witness) restore(kind byte, number uint32, term uint64, r *reader) error {
	l, highest := w.find(number, term)
	switch kind {
	case recordPromises:
		p := w.raise(number, 0)
		if promises := term; promises < p.promises {
			return fmt.Errorf("it is after %d promises", p.promises)
		}
		p.promises = term
	case recordStarted:
		slots, round := r.uvarint(), r.uvarint()
		if slots > cache.MaxSlots || term <= highest {
			return fmt.Errorf("it has %d slots, and is after term %d", slots, highest)
		}
		l, err := w.begin(number, term, int(slots), true)
		if err != nil {
			return err
		}
		l.cache.SetRound(round)
	case recordSaved, recordDropped, recordFrozen:
		if l == nil || kind != recordFrozen && l.frozen {
			return errors.New("it is not in normal mode")
		}
		return w.restoreIn(l, kind, r)
	case recordEnded:
		w.end(number, term)
	case recordBarred:
		w.raise(number, term).promises++
	default:
		return errors.New("there is no such kind")
	}
	return nil
}

// restoreIn takes a record of what a life holds.
func (w *Witness) restoreIn(l *life, kind byte, r *reader) error {
	switch kind {
	case recordSaved:
		w.partitions[l.number].promises++
		return restoreSaved(l, r)
	case recordDropped:
		return restoreDropped(l, r)
	}
	w.partitions[l.number].promises++
	l.frozen = true
	return nil
}

func restoreSaved(l *life, r *reader) error {
	age, hashes, hash := r.uvarint(), r.uvarint(), r.fixed()
	id := cache.ID{Session: r.fixed(), Number: r.uvarint()}
	request := r.data
	if r.data = nil; r.failed || hashes != 1 || len(request) > cache.MaxRequest {
		return fmt.Errorf("it has %d hashes, and its request %d bytes", hashes, len(request))
	}
	if outcome := l.cache.Restore(id, hash, request, age); outcome != cache.Accepted {
		return fmt.Errorf("a saved request does not fit the others (%d)", outcome)
	}
	return nil
}

func restoreDropped(l *life, r *reader) error {
	for len(r.data) > 0 {
		hash, session, number := r.fixed(), r.fixed(), r.uvarint()
		if r.failed || !l.cache.Drop(hash, cache.ID{Session: session, Number: number}) {
			return errors.New("it drops what is not held")
		}
	}
	l.cache.AddRound()
	return nil
}

// shows reports whether the highest term is that of a life, or of one that ended.
func (p *partition) shows() bool {
	n := len(p.lives)
	return p.highest == p.ended || n > 0 && p.lives[n-1].term == p.highest
}

// Snapshot lists records that restore the present state, instead of all that were persisted.
func (w *Witness) Snapshot() [][]byte {
	e := &Effects{memory: make([]byte, 0, w.LiveBytes())}
	for number, p := range w.partitions {
		for _, l := range p.lives {
			e.persist(appendStarted(e.memory, l))
			for _, element := range l.cache.Order() {
				e.persist(appendSaved(e.memory, l, l.cache.At(element)))
			}
			if l.frozen {
				e.persist(appendHead(e.memory, recordFrozen, l.number, l.term))
			}
		}
		if p.ended > 0 {
			e.persist(appendHead(e.memory, recordEnded, uint32(number), p.ended))
		}
		if !p.shows() {
			e.persist(appendHead(e.memory, recordBarred, uint32(number), p.highest))
		}
		if p.promises > 0 {
			e.persist(appendHead(e.memory, recordPromises, uint32(number), p.promises))
		}
	}
	return e.Persist
}
