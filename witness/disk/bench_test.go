package disk

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BenchmarkAppend is what a commit of one record takes until it is durable, in the temporary directory, with a log that
// is written anew when it has the size at which a witness does that.
func BenchmarkAppend(b *testing.B) {
	const most = 16 << 20
	for _, size := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := options(vfs.Default)
			o.Directory = b.TempDir()
			d, _, err := open(o)
			if err != nil {
				b.Fatal(err)
			}
			var c Commit
			c.Add(bytes.Repeat([]byte{1}, size))
			var took []time.Duration
			for b.Loop() {
				if d.Size() > most {
					b.StopTimer()
					if err := d.Rewrite(nil); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				start := time.Now()
				if err := d.Append(&c); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			if err := d.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
