package storage

import (
	"fmt"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
)

func TestCacheKeepsWhatIsUsedAndItsBound(t *testing.T) {
	const limit = 10 * (entryBytes + 6 + 10)
	c := newCache(limit)
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
	c := newCache(1 << 10)
	c.note(
		protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte("gone")}, {Key: []byte("empty"), Value: []byte{}}}})
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
