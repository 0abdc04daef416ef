package durable

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BenchmarkMark is what a commit pays for its mark beside the fsync.
func BenchmarkMark(b *testing.B) {
	f, err := CreateMark(vfs.Default, b.TempDir(), "MARK", 1, Mark{})
	if err != nil {
		b.Fatal(err)
	}
	for n := range b.N {
		if err := f.Write(Mark{1, uint64(n)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkChecksum is what a record pays when it is written, and when it is read.
func BenchmarkChecksum(b *testing.B) {
	key, value := make([]byte, 18), make([]byte, 128)
	for b.Loop() {
		Checksum(1, key, value)
	}
}
