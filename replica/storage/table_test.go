package storage

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/test/listenertest"
)

// A table in memory in which few keys are overwritten is written out at the size of the smallest one; that of many keys
// goes on to its own size.
func TestTablesOfFewKeysAreWrittenOutEarly(t *testing.T) {
	for name, keys := range map[string]int{"few keys": 1000, "many keys": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			o := options(vfs.NewMem(), Sync)
			o.Cache = 4 * memTableOf * leastMemTable
			s := open(t, o) // its database waits for half a full table before it writes any out by itself
			defer closeStore(t, s)
			db := s.engine.(*disk).db
			before := db.Metrics().Flush.Count
			var batch []protocol.Mutation
			for i := range leastMemTable / 900 {
				batch = append(batch, protocol.Mutation{Key: fmt.Append(nil, i%keys), Value: make([]byte, 1000)})
				if len(batch) == 100 {
					put(t, s, 0, uint64(i), batch...)
					batch = nil
				}
			}
			if keys > 1000 {
				if n := s.engine.(*disk).table.number.Load(); n != 1 {
					t.Errorf("table %d is being filled: another one was written out before it was full", n)
				}
				return
			}
			listenertest.WaitUntil(t, "the table is written out",
				func() bool { return db.Metrics().Flush.Count > before })
		})
	}
}
