package cache

import (
	"cmp"
	"slices"
)

// Saved is a request that is held. Its slices are valid until the cache is used again.
type Saved struct {
	ID      ID
	Hashes  []uint64 // those that were not dropped, in the request's order
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
			if !yield(c.At(int32(i), nil)) || c.suspects == 0 {
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
		if c.entries[i].first != 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &c.entries[a], &c.entries[b]
		return cmp.Or(cmp.Compare(x.id.Session, y.id.Session), cmp.Compare(x.id.Number, y.id.Number),
			cmp.Compare(c.slots[x.first-1].hash, c.slots[y.first-1].hash))
	})
	return order
}

// At is an element of Order. The hashes are appended to those given.
func (c *Cache) At(element int32, hashes []uint64) Saved {
	e := &c.entries[element]
	for at := e.first; at != 0; at = c.slots[at-1].next {
		hashes = append(hashes, c.slots[at-1].hash)
	}
	return Saved{ID: e.id, Hashes: hashes, Request: c.request(element), Age: c.round - e.written}
}

// Held is how many requests are held.
func (c *Cache) Held() int { return c.held }

// Taken is how many slots are.
func (c *Cache) Taken() int { return c.taken }

// Slots is how many there are.
func (c *Cache) Slots() int { return len(c.slots) }

// Bytes is the size of the requests that are held.
func (c *Cache) Bytes() int { return c.bytes }

// Memory is what the cache takes of its budget, in bytes.
func (c *Cache) Memory() int64 { return c.fixed + int64(len(c.chunks))*ChunkBytes }
