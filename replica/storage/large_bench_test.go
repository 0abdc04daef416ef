package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
)

// BenchmarkMoreThanMemory reads and writes records of which about a tenth fits into memory, as a member does whose
// clients read as much as they write: of each two records that are asked for, one is written. What counts is the
// processor time of it all, with tables that are written out and merged meanwhile, so it takes -benchtime 300000x or
// more, TMPDIR where room is, and a minute before it begins.
func BenchmarkMoreThanMemory(b *testing.B) {
	const records, group, valueBytes = 1_200_000, 16, 1024
	o := options(nil, Interval)
	o.FileSystem, o.Directory, o.Cache = nil, b.TempDir(), leastMemTable*memTableOf
	s, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	shard := s.Shard(0).(*diskShard)
	draw := rand.New(rand.NewPCG(1, 1))
	random := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // it never fails
	sequence := uint64(0)
	write := func(keys []string) {
		sequence++
		batch := protocol.Batch{Sequence: sequence}
		for _, key := range keys {
			value := slices.Clone(random[draw.IntN(len(random)-valueBytes):][:valueBytes])
			batch.Mutations = append(batch.Mutations, protocol.Mutation{Key: []byte(key), Value: value})
		}
		if err := s.Persist(0, batch); err != nil {
			b.Fatal(err)
		}
	}
	key := func(i int) string { return fmt.Sprint("rbench/value/", i) }
	for i := 0; i < records; i += group {
		var keys []string
		for k := range group {
			keys = append(keys, key(i+k))
		}
		write(keys)
	}
	step := func() {
		var keys, missing []string
		for range group {
			k := key(draw.IntN(records))
			keys = append(keys, k)
			if !shard.Known([]byte(k)) && !slices.Contains(missing, k) {
				missing = append(missing, k)
			}
		}
		if len(missing) > 0 {
			fetched := make(chan struct{}, len(missing))
			shard.Fetch(missing, func() { fetched <- struct{}{} })
			for got := 0; got < len(missing); got += len(shard.Collect()) {
				<-fetched
			}
		}
		write(keys[:group/2])
	}
	if err := shard.disk.db.Compact(b.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		b.Fatal(err)
	}
	for range records / 4 / group { // what is merged then is as old as in a long run
		step()
	}
	b.Run("half written", func(b *testing.B) {
		cpu, bytes := processorTime(b), tableBytes(shard)
		for i := 0; i < b.N; i += group {
			step()
		}
		b.ReportMetric(float64((processorTime(b)-cpu).Nanoseconds())/1e3/float64(b.N), "CPU-µs/op")
		b.ReportMetric(float64(tableBytes(shard)-bytes)/float64(b.N/2*valueBytes), "written/byte")
		b.ReportMetric(float64(s.Bytes())/records, "disk-B/record")
	})
}

// tableBytes is how much the database has written, without its logs.
func tableBytes(s *diskShard) (all uint64) {
	for _, l := range s.disk.db.Metrics().Levels {
		all += l.TableBytesFlushed + l.TableBytesCompacted + l.BlobBytesFlushed + l.BlobBytesCompacted
	}
	return all
}

// processorTime is that of this process.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
