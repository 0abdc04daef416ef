package cache

import (
	"cmp"
	"slices"
)

// Saved is a request that is held. The request is valid until the cache is used again.
type Saved struct {
	ID      ID
	Hash    uint64 // of its key
	Request []byte
	Age     uint64 // how many rounds of gc it has outlasted
}

// AddRound counts a round of gc.
func (c *Cache) AddRound() { c.round++ }

// Round is how many rounds of gc there were.
func (c *Cache) Round() uint64 { return c.round }

// SetRound restores the number of rounds.
func (c *Cache) SetRound(n uint64) { c.round = n }

// suspect notes that an entry was in the way of a request, if it has outlasted StaleAfter rounds of gc.
func (c *Cache) suspect(index int32) {
	e := &c.entries[index]
	if !e.suspected && c.round-e.written >= StaleAfter {
		e.suspected = true
		c.suspects++
	}
}

// TakeSuspects yields requests that are suspected to be garbage, until yield returns false; what it was called with is
// suspected no longer, until it is in the way again.
func (c *Cache) TakeSuspects(yield func(Saved) bool) {
	if c.suspects == 0 {
		return
	}
	for i := range c.entries {
		if e := &c.entries[i]; e.suspected {
			e.suspected = false
			c.suspects--
			if !yield(c.At(int32(i))) || c.suspects == 0 {
				return
			}
		}
	}
}

// Order lists what is held, for At. It depends on nothing but the requests and their hashes, so it is the same after a
// restart. It is valid until the cache changes.
func (c *Cache) Order() []int32 {
	order := make([]int32, 0, c.held)
	for i := range c.entries {
		if c.entries[i].slot != 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &c.entries[a], &c.entries[b]
		return cmp.Or(cmp.Compare(x.id.Session, y.id.Session), cmp.Compare(x.id.Number, y.id.Number),
			cmp.Compare(c.slots[x.slot-1].hash, c.slots[y.slot-1].hash))
	})
	return order
}

// At is an element of Order.
func (c *Cache) At(element int32) Saved {
	e := &c.entries[element]
	return Saved{ID: e.id, Hash: c.slots[e.slot-1].hash, Request: c.request(element), Age: c.round - e.written}
}

// Held is how many requests are held, and slots taken.
func (c *Cache) Held() int { return c.held }

// Slots is how many there are.
func (c *Cache) Slots() int { return len(c.slots) }

// Bytes is the size of the requests that are held.
func (c *Cache) Bytes() int { return c.bytes }

// Memory is what the cache takes of its budget, in bytes.
func (c *Cache) Memory() int64 { return c.fixed + int64(len(c.chunks))*ChunkBytes }
