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

// suspect notes that the entries of a hash, or of all of its set, were in the way of a request, as far as they have
// outlasted StaleAfter rounds of gc.
func (c *Cache) suspect(hash uint64, alone bool) {
	begin := c.set(hash)
	for _, s := range c.slots[begin : begin+Ways] {
		if s.entry == 0 || alone && s.hash != hash {
			continue
		}
		if e := &c.entries[s.entry-1]; !e.suspected && c.round-e.written >= StaleAfter {
			e.suspected = true
			c.suspects++
		}
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

// Order lists what is held, for At, in the order in which it was saved: of one hash that is the order in which the
// master executed it. It is the same after what is held was restored in this order. It is valid until the cache
// changes.
func (c *Cache) Order() []int32 {
	order := make([]int32, 0, c.held)
	for i := range c.entries {
		if c.entries[i].slot != 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Compare(c.entries[a].order, c.entries[b].order)
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
