package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/cache"
)

// A record is a byte for its kind, the partition and the term, and then what the kind says. Numbers are varints, hashes
// and sessions have 8 bytes. Restored in order, records lead to the same state, since nothing but they change it.
const (
	recordSaved   = 1 // age, the number of hashes, hashes, session, number, the request up to the end
	recordDropped = 2 // for each dropped hash: hash, session, number; it also counts a round
	recordFrozen  = 3
	recordStarted = 4 // slots, rounds
	recordEnded   = 5
	recordBarred  = 6 // the term never began, and must not any more
	// recordPromises has, instead of the term, how many promises were made in the partition: the records before it may be
	// fewer.
	recordPromises = 7
)

// openRecord begins a record in the memory of the next effects.
func (w *Witness) openRecord() int { return len(w.effects.memory) }

// closeRecord adds what was appended since to what is persisted. Memory that has grown meanwhile leaves earlier records
// where they were.
func (w *Witness) closeRecord(begin int) {
	if w.config.Volatile {
		w.effects.memory = w.effects.memory[:begin]
		return
	}
	end := len(w.effects.memory)
	w.effects.Persist = append(w.effects.Persist, w.effects.memory[begin:end:end])
}

func appendHead(b []byte, kind byte, partition uint32, term uint64) []byte {
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(partition))
	return binary.AppendUvarint(b, term)
}

func appendSaved(b []byte, l *life, s cache.Saved) []byte {
	b = appendHead(b, recordSaved, l.number, l.term)
	b = binary.AppendUvarint(b, s.Age)
	b = binary.AppendUvarint(b, uint64(len(s.Hashes)))
	for _, hash := range s.Hashes {
		b = binary.LittleEndian.AppendUint64(b, hash)
	}
	b = binary.LittleEndian.AppendUint64(b, s.ID.Session)
	b = binary.AppendUvarint(b, s.ID.Number)
	return append(b, s.Request...)
}

func appendStarted(b []byte, l *life) []byte {
	b = appendHead(b, recordStarted, l.number, l.term)
	b = binary.AppendUvarint(b, uint64(l.cache.Slots()))
	return binary.AppendUvarint(b, l.cache.Round())
}

func (w *Witness) persistSaved(l *life, s cache.Saved) {
	if w.config.Volatile {
		return
	}
	begin := w.openRecord()
	w.effects.memory = appendSaved(w.effects.memory, l, s)
	w.closeRecord(begin)
	w.promise(l.number)
}

func (w *Witness) persistStarted(l *life) {
	begin := w.openRecord()
	w.effects.memory = appendStarted(w.effects.memory, l)
	w.closeRecord(begin)
}

func (w *Witness) persistFrozen(l *life) {
	begin := w.openRecord()
	w.effects.memory = appendHead(w.effects.memory, recordFrozen, l.number, l.term)
	w.closeRecord(begin)
	w.promise(l.number)
}

func (w *Witness) persistEnded(partition uint32, term uint64) {
	begin := w.openRecord()
	w.effects.memory = appendHead(w.effects.memory, recordEnded, partition, term)
	w.closeRecord(begin)
}

func (w *Witness) persistBarred(partition uint32, term uint64) {
	begin := w.openRecord()
	w.effects.memory = appendHead(w.effects.memory, recordBarred, partition, term)
	w.closeRecord(begin)
	w.promise(partition)
}

func (w *Witness) beginDropped(l *life) {
	w.effects.memory = appendHead(w.effects.memory, recordDropped, l.number, l.term)
}

func (w *Witness) addDropped(hash uint64, id cache.ID) {
	b := binary.LittleEndian.AppendUint64(w.effects.memory, hash)
	b = binary.LittleEndian.AppendUint64(b, id.Session)
	w.effects.memory = binary.AppendUvarint(b, id.Number)
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
	if record[0] == recordPromises {
		return w.restorePromises(uint32(number), term, r)
	}
	l, highest := w.find(uint32(number), term)
	switch kind := record[0]; kind {
	case recordStarted:
		return w.restoreStarted(uint32(number), term, highest, r)
	case recordEnded:
		if len(r.data) > 0 {
			return errRecord
		}
		w.end(uint32(number), term)
		return nil
	case recordBarred:
		if len(r.data) > 0 {
			return errRecord
		}
		w.raise(uint32(number), term).promises++
		return nil
	case recordSaved, recordDropped, recordFrozen:
		if l == nil || kind != recordFrozen && l.frozen {
			return fmt.Errorf("%w: kind %d of partition %d in term %d, which is not in normal mode", errRecord, kind, number, term)
		}
		switch kind {
		case recordSaved:
			w.partitions[number].promises++
			return w.restoreSaved(l, r)
		case recordDropped:
			return restoreDropped(l, r)
		}
		w.partitions[number].promises++
		if len(r.data) > 0 {
			return errRecord
		}
		l.frozen = true
		return nil
	}
	return fmt.Errorf("%w: kind %d", errRecord, record[0])
}

func (w *Witness) restoreStarted(number uint32, term, highest uint64, r *reader) error {
	slots, round := r.uvarint(), r.uvarint()
	if r.failed || len(r.data) > 0 || slots > cache.MaxSlots || term <= highest {
		return fmt.Errorf("%w: partition %d began in term %d after %d", errRecord, number, term, highest)
	}
	l, err := w.begin(number, term, int(slots), true)
	if err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	l.cache.SetRound(round)
	return nil
}

func (w *Witness) restoreSaved(l *life, r *reader) error {
	age, count := r.uvarint(), r.uvarint()
	if r.failed || count == 0 || count > cache.MaxHashes {
		return errRecord
	}
	w.hashes = w.hashes[:0]
	for range count {
		w.hashes = append(w.hashes, r.fixed())
	}
	id := cache.ID{Session: r.fixed(), Number: r.uvarint()}
	if r.failed || len(r.data) > cache.MaxRequest {
		return errRecord
	}
	if outcome := l.cache.Restore(id, w.hashes, r.data, age); outcome != cache.Accepted {
		return fmt.Errorf("%w: a saved request does not fit the others (%d)", errRecord, outcome)
	}
	return nil
}

func (w *Witness) restorePromises(number uint32, promises uint64, r *reader) error {
	p := w.raise(number, 0)
	if len(r.data) > 0 || promises < p.promises {
		return fmt.Errorf("%w: %d promises in partition %d, after %d", errRecord, promises, number, p.promises)
	}
	p.promises = promises
	return nil
}

func restoreDropped(l *life, r *reader) error {
	for len(r.data) > 0 {
		hash, session, number := r.fixed(), r.fixed(), r.uvarint()
		if r.failed || !l.cache.Drop(hash, cache.ID{Session: session, Number: number}) {
			return fmt.Errorf("%w: it drops what is not held", errRecord)
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

// Snapshot yields records that restore the present state, instead of all that were persisted. Each is valid until the
// next.
func (w *Witness) Snapshot() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var b []byte
		for number, p := range w.partitions {
			if p == nil {
				continue
			}
			for _, l := range p.lives {
				if b = appendStarted(b[:0], l); !yield(b) {
					return
				}
				for _, element := range l.cache.Order() {
					s := l.cache.At(element, w.hashes[:0])
					w.hashes = s.Hashes
					if b = appendSaved(b[:0], l, s); !yield(b) {
						return
					}
				}
				if b = appendHead(b[:0], recordFrozen, l.number, l.term); l.frozen && !yield(b) {
					return
				}
			}
			if b = appendHead(b[:0], recordEnded, uint32(number), p.ended); p.ended > 0 && !yield(b) {
				return
			}
			if b = appendHead(b[:0], recordBarred, uint32(number), p.highest); !p.shows() && !yield(b) {
				return
			}
			if b = appendHead(b[:0], recordPromises, uint32(number), p.promises); p.promises > 0 && !yield(b) {
				return
			}
		}
	}
}
