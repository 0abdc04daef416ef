package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"sort"

	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/slab"
)

// Reader is the durable state of a member, as far as it is on disk.
type Reader interface {
	// Get returns the record of a key; the bytes must not be changed.
	Get(key []byte) (value []byte, ok bool)
	// Scan visits the records behind a key in order, until visit returns false. The bytes are valid only
	// during the visit.
	Scan(after []byte, visit func(key, value []byte) bool)
}

// Loader is the capability of a Reader that finds many records in one pass.
type Loader interface {
	// Load says that Get is about to be asked for the records of these keys: where they ascend, one pass finds them.
	// None of them is in a batch that is not durable yet.
	Load(keys [][]byte)
}

// Sizer is the capability of a Reader that estimates cheaply how much it holds.
type Sizer interface {
	// Remaining estimates the bytes of the records behind a key.
	Remaining(after []byte) uint64
}

// Fetcher is the capability of a Reader of which some records are in memory, and others are not. It is used by the
// goroutine that reads.
type Fetcher interface {
	// Known reports whether Get finds in memory a record, or that there is none.
	Known(key []byte) bool
	// Fetch begins to bring records into memory, beside everything else; collect is called, from another goroutine, when
	// some of them can be collected. Batches that were committed before it and have one of these records must be durable:
	// what is read else may be older. Journal.Durable says that of a record.
	Fetch(keys []string, collect func())
	// Collect has what was fetched be in memory, and returns the keys. A record that was written meanwhile is as it was
	// written last.
	Collect() []string
}

// Mutation sets a record, or deletes it when Value is nil.
type Mutation struct {
	Key   []byte
	Value []byte
}

// Batch is a set of mutations that becomes durable as one.
type Batch struct {
	Sequence  uint64 // of the journal's batches; 0 means nothing to persist
	Mutations []Mutation
}

// Add makes a batch one with a later one of the same journal.
func (b *Batch) Add(later Batch) {
	if later.Sequence != 0 {
		*b = Batch{Sequence: later.Sequence, Mutations: append(b.Mutations, later.Mutations...)}
	}
}

// Journal is a protocol's view of its disk: what is durable, overlaid with what is not yet. A protocol reads
// its own mutations at once, and can ask whether what it read could still be lost.
type Journal struct {
	disk    Reader
	loader  Loader // the disk; nil: it finds records one by one
	sizer   Sizer  // the disk; nil: it can't tell
	overlay map[string]overlaid
	keys    slab.Strings // of the overlay
	pending slab.List[Mutation]
	next    uint64 // sequence of the batch that collects now
	durable uint64 // every batch up to this one is durable
	flying  []flight

	countKey []byte // nil: batches are not counted
	promises bool   // the batch that collects has more than notes
	taken    uint64 // batches that the disk has had, and those that are not durable yet
	counted  uint64 // those that are durable
	values   slab.Bytes
	scratch  [binary.MaxVarintLen64]byte `digest:"-"`
}

// flight is a batch that is not known to be durable.
type flight struct {
	Batch
	count uint64 // of the disk's batches, up to it
}

type overlaid struct {
	value    []byte // nil: deleted
	sequence uint64
}

// NewJournal returns a journal over a disk.
func NewJournal(disk Reader) *Journal {
	j := &Journal{disk: disk, overlay: map[string]overlaid{}, next: 1}
	j.loader, _ = disk.(Loader)
	j.sizer, _ = disk.(Sizer)
	return j
}

// Get returns the newest record of a key.
func (j *Journal) Get(key []byte) ([]byte, bool) {
	if o, ok := j.overlay[string(key)]; ok {
		return o.value, o.value != nil
	}
	return j.disk.Get(key)
}

// Load says that the records of these keys are about to be asked for: where they ascend, a disk may find them in one
// pass. The list is the journal's from then on.
func (j *Journal) Load(keys [][]byte) {
	if j.loader == nil {
		return
	}
	// What is not durable yet is not the disk's to tell.
	j.loader.Load(slices.DeleteFunc(keys, func(key []byte) bool { return !j.Durable(key) }))
}

// Durable reports whether the newest record of a key survives a crash now.
func (j *Journal) Durable(key []byte) bool {
	_, dirty := j.overlay[string(key)]
	return !dirty
}

// Put sets a record. The journal owns key and value from then on.
func (j *Journal) Put(key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	j.set(key, value)
}

// Delete removes a record.
func (j *Journal) Delete(key []byte) { j.set(key, nil) }

// Note sets a record that promises nothing: a batch of notes alone is not counted.
func (j *Journal) Note(key, value []byte) {
	promises := j.promises
	j.Put(key, value)
	j.promises = promises
}

// Count has each batch from now on say, in the record of that key, how many the disk has had, over all processes. It
// returns how many there were.
func (j *Journal) Count(key []byte) (uint64, error) {
	if j.countKey != nil {
		return j.taken, nil // another protocol of this process counts
	}
	j.countKey = key
	if raw, ok := j.disk.Get(key); ok {
		n, size := binary.Uvarint(raw)
		if size != len(raw) {
			return 0, errors.New("the count of batches on disk is damaged")
		}
		if err := bounds.Numbers("the count of batches on disk", n); err != nil {
			return 0, err
		}
		j.taken, j.counted = n, n
	}
	return j.taken, nil
}

// Counted is how many batches are durable, of those that are counted; taken counts also those that were handed to the
// world.
func (j *Journal) Counted() (durable, taken uint64) { return j.counted, j.taken }

func (j *Journal) set(key, value []byte) {
	j.promises = true
	j.overlay[j.keys.Of(key)] = overlaid{value, j.next}
	j.pending.Add(Mutation{key, value})
}

// Scan visits the newest records behind a key in order, until visit returns false.
func (j *Journal) Scan(after []byte, visit func(key, value []byte) bool) {
	dirty := make([]string, 0, len(j.overlay))
	for key := range j.overlay { // sorted below
		if key > string(after) {
			dirty = append(dirty, key)
		}
	}
	sort.Strings(dirty)
	stopped := false
	emit := func(limit []byte) { // overlaid records before limit
		for len(dirty) > 0 && !stopped && (limit == nil || dirty[0] < string(limit)) {
			key := dirty[0]
			dirty = dirty[1:]
			if o := j.overlay[key]; o.value != nil {
				stopped = !visit([]byte(key), o.value)
			}
		}
	}
	j.disk.Scan(after, func(key, value []byte) bool {
		emit(key)
		if stopped {
			return false
		}
		if len(dirty) > 0 && dirty[0] == string(key) {
			emit(append(bytes.Clone(key), 0))
		} else {
			stopped = !visit(key, value)
		}
		return !stopped
	})
	emit(nil)
}

// Kind lists the newest records behind a key in order, as far as they begin with the same byte as it. The bytes are
// valid only until the next.
func (j *Journal) Kind(after []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		j.Scan(after, func(key, value []byte) bool { return key[0] == after[0] && yield(key, value) })
	}
}

// Take closes the batch that collects and hands it to the world to persist.
func (j *Journal) Take() Batch {
	if j.pending.Len() == 0 {
		return Batch{}
	}
	if j.countKey != nil && j.promises {
		j.taken++
		// Nobody reads it from here, so that it is not laid over the disk.
		j.pending.Add(Mutation{j.countKey, j.encode(j.taken)})
	}
	j.promises = false
	b := Batch{Sequence: j.next, Mutations: j.pending.Take()}
	j.next++
	j.flying = append(j.flying, flight{b, j.taken})
	return b
}

// encode returns a number as a record has it.
func (j *Journal) encode(n uint64) []byte {
	raw := binary.AppendUvarint(j.scratch[:0], n)
	value := j.values.Make(len(raw))
	copy(value, raw)
	return value
}

// Persisted says that the batch and all before it are on disk, and that the disk returns them.
func (j *Journal) Persisted(sequence uint64) {
	if sequence <= j.durable {
		return
	}
	j.durable = sequence
	for len(j.flying) > 0 && j.flying[0].Sequence <= sequence {
		j.counted = j.flying[0].count
		for _, m := range j.flying[0].Mutations {
			if o, ok := j.overlay[string(m.Key)]; ok && o.sequence <= sequence {
				delete(j.overlay, string(m.Key))
			}
		}
		j.flying = slices.Delete(j.flying, 0, 1)
	}
}

// Mark names what was put so far, for Survives.
func (j *Journal) Mark() (mark uint64) {
	if j.pending.Len() > 0 {
		return j.next
	}
	return j.next - 1
}

// Survives reports whether everything that was put up to a mark is durable.
func (j *Journal) Survives(mark uint64) bool { return mark <= j.durable }

// Remaining estimates the bytes of the records behind a key, without those that are not durable yet; 0 if the disk
// can't tell.
func (j *Journal) Remaining(after []byte) uint64 {
	if j.sizer == nil {
		return 0
	}
	return j.sizer.Remaining(after)
}

// Clean reports whether everything that was put is durable.
func (j *Journal) Clean() bool { return len(j.overlay) == 0 }
