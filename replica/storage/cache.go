package storage

import (
	"sync/atomic"

	"github.com/georegister/georegister/replica/protocol"
)

const (
	// DefaultCache is how many bytes of memory records are kept in where nobody says.
	DefaultCache = 64 << 20
	// LeastCache is the least that can be asked for.
	LeastCache = 16 << 20
	// blocksOf says which part of that is for blocks of the database's tables: most of what is asked for again is found
	// among the records, which spares the search in the tables.
	blocksOf = 4
	// entryBytes is about what an entry costs beside its key and value: the entry, its place in a map, and what
	// allocations are rounded up by.
	entryBytes = 112
)

// cache remembers the records that a shard used last, in two generations: what was not used while the younger
// one filled up is forgotten with the older one. It holds what was committed, which may not be durable yet;
// the journal's overlay covers that until it is.
type cache struct {
	young, old map[string]*entry
	bytes      int64         // of young
	limit      *atomic.Int64 // of young, the same for all shards
}

// entry is a record, or that there is none: the value is nil.
type entry struct {
	key   string
	value []byte
	table uint32 // the number of the table in memory that it was written to last; 0: it was read
}

func newCache(limit *atomic.Int64) *cache { return &cache{young: map[string]*entry{}, limit: limit} }

func (c *cache) get(key []byte) (value []byte, known bool) {
	if e := c.young[string(key)]; e != nil {
		return e.value, true
	}
	if e := c.old[string(key)]; e != nil {
		c.add(e)
		return e.value, true
	}
	return nil, false
}

func (c *cache) put(key, value []byte) *entry {
	if e := c.young[string(key)]; e != nil {
		c.bytes += int64(len(value) - len(e.value))
		e.value = value
		c.age()
		return e
	}
	e := c.old[string(key)]
	if e == nil {
		e = &entry{key: string(key)}
	}
	e.value = value
	c.add(e)
	return e
}

// add takes an entry into the younger generation. Its memory is the same in both.
func (c *cache) add(e *entry) {
	c.young[e.key] = e
	c.bytes += int64(entryBytes + len(e.key) + len(e.value))
	c.age()
}

// age begins another generation once the younger one is full.
func (c *cache) age() {
	if c.bytes > c.limit.Load() {
		c.old, c.young, c.bytes = c.young, map[string]*entry{}, 0
	}
}

// note remembers what a batch makes of the records, and counts those that the table in memory has already.
func (c *cache) note(batch protocol.Batch, table uint32) (repeats int) {
	for _, u := range batch.Mutations {
		e := c.put(u.Key, u.Value)
		if e.table == table {
			repeats++
		}
		e.table = table
	}
	return repeats
}
