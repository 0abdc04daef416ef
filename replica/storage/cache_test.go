package storage

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
)

func cacheOf(limit int64) *cache {
	var bound atomic.Int64
	bound.Store(limit)
	return newCache(&bound)
}

func TestCacheKeepsWhatIsUsedAndItsBound(t *testing.T) {
	const limit = 10 * (entryBytes + 6 + 10)
	c := cacheOf(limit)
	c.put([]byte("pinned"), []byte("0123456789"))
	for i := range 1000 {
		c.put(fmt.Appendf(nil, "%06d", i), []byte("0123456789"))
		if _, known := c.get([]byte("pinned")); !known {
			t.Fatalf("a key in use was forgotten after %d others", i)
		}
		if n := len(c.young) + len(c.old); n > 2*11 {
			t.Fatalf("%d entries are held", n)
		}
	}
	if _, known := c.get([]byte("000000")); known {
		t.Error("a key that nobody used is still held")
	}
}

func TestCacheTellsAbsentFromUnknown(t *testing.T) {
	c := cacheOf(1 << 10)
	c.note(protocol.Batch{Mutations: []protocol.Mutation{
		{Key: []byte("gone")}, {Key: []byte("empty"), Value: []byte{}},
	}}, 1)
	if v, known := c.get([]byte("gone")); !known || v != nil {
		t.Errorf("a deleted record: %v, %v", v, known)
	}
	if v, known := c.get([]byte("empty")); !known || v == nil {
		t.Errorf("an empty record: %v, %v", v, known)
	}
	if _, known := c.get([]byte("other")); known {
		t.Error("an unknown key is known")
	}
}

// What both generations hold is held once, and an old entry that is written is the younger one's.
func TestCacheHasEachRecordOnce(t *testing.T) {
	c := cacheOf(entryBytes + 3)
	c.put([]byte("a"), []byte("1"))
	c.put([]byte("b"), []byte("12")) // one byte more than there is room for: another generation begins
	if len(c.old) != 2 || len(c.young) != 0 {
		t.Fatalf("%d and %d entries", len(c.young), len(c.old))
	}
	c.put([]byte("a"), []byte("2"))
	if c.old["a"] != c.young["a"] || c.bytes != entryBytes+2 {
		t.Errorf("the entry is held twice, or %d bytes are counted", c.bytes)
	}
	if v, known := c.get([]byte("a")); !known || string(v) != "2" {
		t.Errorf("%q, %v", v, known)
	}
}
