// Package cache is what one life of a CURP witness holds: the requests that its clients saved, each found by the hash
// of its key (sections 4.1, 4.2 and 4.5 of the paper). The paper's requests may have several keys; none has here. And
// the paper's witness holds one request of a key. Here a second one is held if it names the one that was saved last as
// complete before it: the two are replayed in the order in which they were saved, which is that of the master.
package cache

import (
	"errors"
	"fmt"
	"math/bits"
)

const (
	// Ways is how many records can share a set of slots (appendix B.1).
	Ways = 4
	// DefaultSlots is the paper's number of slots (section 5.2).
	DefaultSlots = 4096
	// MaxSlots bounds what can be configured.
	MaxSlots = 1 << 20
	// MaxRequest is the size of the largest request that is saved, in bytes (section 5.2).
	MaxRequest = 2 << 10
	// StaleAfter is how many rounds of gc a record has to outlast before it is suspected to be garbage (section 4.5).
	StaleAfter = 3
)

// ChunkBytes is by how much the memory of a cache grows. It never shrinks.
const ChunkBytes = chunkEntries * MaxRequest

const chunkEntries = 32

// ID names a request across retries, as in RIFL.
type ID struct{ Session, Number uint64 }

// Outcome is what became of a request to save.
type Outcome uint8

// The outcomes. All but Accepted leave the cache as it is.
const (
	Accepted  Outcome = iota // it is held
	Conflict                 // another request holds its hash, and is not the one that it follows
	Full                     // the hash's set has no free slot
	NoMemory                 // the budget is used up
	Different                // another request of the hash has the same ID
)

// Budget bounds the memory of several caches together.
type Budget struct {
	Limit int64 // bytes; not positive: no bound
	Used  int64
}

// take reserves bytes. Force never refuses: what is durable is restored under any limit.
func (b *Budget) take(n int64, force bool) bool {
	if !force && b.Limit > 0 && b.Used+n > b.Limit {
		return false
	}
	b.Used += n
	return true
}

// Cache is a set-associative cache of requests, each of which takes a slot. It is not safe for concurrent use. Saving
// and dropping allocate nothing, except when more requests are held than ever before.
type Cache struct {
	slots    []slot
	shift    uint
	entries  []entry
	chunks   [][]byte // the requests of chunkEntries entries each
	free     []int32  // entries that hold nothing; the last is taken first, since its memory was used lately
	round    uint64   // how many rounds of gc there were
	saves    uint64   // how many requests were ever saved
	held     int      // requests
	bytes    int      // of the requests that are held
	suspects int      // entries that are suspected
	budget   *Budget
	fixed    int64 // what the slots took of the budget
}

// slot holds the hash of a request.
type slot struct {
	hash  uint64
	entry int32 // index + 1; 0: the slot is free
}

// entry is a request that is held, or is free.
type entry struct {
	id        ID
	written   uint64 // the round in which it was saved
	order     uint64 // how many were saved before it
	slot      int32  // that of its hash, + 1; 0: the entry is free
	length    uint16 // of the request
	suspected bool
}

const slotBytes, entryBytes = 16, 40

// CheckSlots reports why a cache can't have that many slots.
func CheckSlots(slots int) error {
	if slots < Ways || slots > MaxSlots || bits.OnesCount(uint(slots)) != 1 {
		return fmt.Errorf("slots: %d is not a power of two from %d to %d", slots, Ways, MaxSlots)
	}
	return nil
}

// errMemory is what New returns when the budget is used up.
var errMemory = errors.New("the memory for saved requests is used up")

// New makes an empty cache. Force exceeds the budget rather than failing.
func New(slots int, budget *Budget, force bool) (*Cache, error) {
	if err := CheckSlots(slots); err != nil {
		return nil, err
	}
	fixed := int64(slots) * (slotBytes + entryBytes)
	if !budget.take(fixed, force) {
		return nil, errMemory
	}
	return &Cache{
		slots: make([]slot, slots), shift: uint(64 - bits.Len(uint(slots/Ways-1))), budget: budget, fixed: fixed,
		entries: make([]entry, 0, slots), free: make([]int32, 0, slots),
		chunks: make([][]byte, 0, (slots+chunkEntries-1)/chunkEntries),
	}, nil
}

// Release gives the cache's memory back to the budget. The cache must not be used any more.
func (c *Cache) Release() {
	c.budget.Used -= c.Memory()
}

// set is where the slots of a hash begin. The multiplication spreads hashes whose high bits are alike.
func (c *Cache) set(hash uint64) int {
	return int((hash*0x9e3779b97f4a7c15)>>c.shift) * Ways
}

// find returns the slot that holds the request of a hash that was saved last, and the last free one of its set, or -1
// for each.
func (c *Cache) find(hash uint64) (last, empty int) {
	last, empty = -1, -1
	begin := c.set(hash)
	for i := begin; i < begin+Ways; i++ {
		switch s := &c.slots[i]; {
		case s.entry == 0:
			empty = i
		case s.hash == hash && (last < 0 || c.entries[s.entry-1].order > c.entries[c.slots[last].entry-1].order):
			last = i
		}
	}
	return last, empty
}

// named returns the slot that holds the request of a hash with an ID, or -1.
func (c *Cache) named(hash uint64, id ID) int {
	begin := c.set(hash)
	for i := begin; i < begin+Ways; i++ {
		if s := &c.slots[i]; s.entry != 0 && s.hash == hash && c.entries[s.entry-1].id == id {
			return i
		}
	}
	return -1
}

// Holds reports whether a request that is held touches a hash.
func (c *Cache) Holds(hash uint64) bool {
	last, _ := c.find(hash)
	return last >= 0
}

// Save holds a request, which has at most MaxRequest bytes; it is copied. One that is held already is accepted again.
// If others of its hash are held, the one that was saved last has to be the one that it follows: that was complete
// before this one was asked for. The zero ID: it follows none that is known.
func (c *Cache) Save(id ID, hash uint64, request []byte, follows ID) Outcome {
	last, _ := c.find(hash)
	if last >= 0 && c.named(hash, id) < 0 && (follows == ID{} || c.entries[c.slots[last].entry-1].id != follows) {
		c.suspect(hash, true)
		return Conflict
	}
	return c.save(id, hash, request, c.round, false)
}

// Restore holds a request that had outlasted some rounds of gc before, behind those that were restored before. Only a
// budget that is used up does not stop it.
func (c *Cache) Restore(id ID, hash uint64, request []byte, age uint64) Outcome {
	return c.save(id, hash, request, c.round-min(age, c.round), true)
}

func (c *Cache) save(id ID, hash uint64, request []byte, written uint64, force bool) Outcome {
	if held := c.named(hash, id); held >= 0 {
		if string(c.request(c.slots[held].entry-1)) != string(request) {
			return Different
		}
		return Accepted
	}
	_, empty := c.find(hash)
	switch {
	case empty < 0:
		c.suspect(hash, false)
		return Full
	case len(c.free) == 0 && !c.grow(force):
		return NoMemory
	}
	e := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.entries[e] = entry{id: id, written: written, order: c.saves, slot: int32(empty) + 1, length: uint16(len(request))}
	copy(c.memory(e), request)
	c.slots[empty] = slot{hash: hash, entry: e + 1}
	c.saves++
	c.held++
	c.bytes += len(request)
	return Accepted
}

// grow makes chunkEntries more entries.
func (c *Cache) grow(force bool) bool {
	if !c.budget.take(ChunkBytes, force) {
		return false
	}
	c.chunks = append(c.chunks, make([]byte, ChunkBytes))
	for i := range chunkEntries {
		c.free = append(c.free, int32(len(c.entries)+chunkEntries-1-i))
	}
	c.entries = append(c.entries, make([]entry, chunkEntries)...)
	return true
}

// memory is where an entry's request lies.
func (c *Cache) memory(e int32) []byte {
	begin := int(e) % chunkEntries * MaxRequest
	return c.chunks[e/chunkEntries][begin : begin+MaxRequest]
}

func (c *Cache) request(e int32) []byte { return c.memory(e)[:c.entries[e].length] }

// Drop drops the request that holds a hash if it has the ID, and reports whether it did.
func (c *Cache) Drop(hash uint64, id ID) bool {
	at := c.named(hash, id)
	if at < 0 {
		return false
	}
	index := c.slots[at].entry - 1
	e := &c.entries[index]
	if e.suspected {
		c.suspects--
	}
	c.held--
	c.bytes -= int(e.length)
	c.slots[at], *e = slot{}, entry{}
	c.free = append(c.free, index)
	return true
}
