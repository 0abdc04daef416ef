package storage

import "github.com/georegister/georegister/replica/protocol"

const (
	// cachedBytes bounds each generation of the caches of records, of all shards together.
	cachedBytes = 8 << 20
	// entryBytes is about what an entry costs beside its key and value.
	entryBytes = 96
)

// cache remembers the records that a shard used last, in two generations: what was not used while the younger
// one filled up is forgotten with the older one. It holds what was committed, which may not be durable yet;
// the journal's overlay covers that until it is.
type cache struct {
	young, old map[string]*stored // a nil value: there is no record
	bytes      int                // of young
	limit      int                // of young
}

func newCache(limit int) *cache { return &cache{young: map[string]*stored{}, limit: limit} }

func (c *cache) get(key []byte) (value []byte, known bool) {
	if e := c.young[string(key)]; e != nil {
		return e.value, true
	}
	if e := c.old[string(key)]; e != nil {
		c.put(key, e.value)
		return e.value, true
	}
	return nil, false
}

func (c *cache) put(key, value []byte) {
	if e := c.young[string(key)]; e != nil {
		c.bytes += len(value) - len(e.value)
		e.value = value
	} else {
		c.bytes += entryBytes + len(key) + len(value)
		c.young[string(key)] = &stored{value}
	}
	if c.bytes > c.limit {
		c.old, c.young, c.bytes = c.young, map[string]*stored{}, 0
	}
}

// note remembers what a batch makes of the records.
func (c *cache) note(batch protocol.Batch) {
	for _, u := range batch.Mutations {
		c.put(u.Key, u.Value)
	}
}
