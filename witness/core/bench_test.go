package core

import (
	"math/rand/v2"
	"runtime"
	"testing"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/cache"
)

// gcEvery is how many requests a master syncs at once (section 4.4).
const gcEvery = 50

// load is an endless run of requests of one hash and 100 bytes, with a GC for every gcEvery of them.
type load struct {
	records []*witnessv1.Message
	gc      *witnessv1.Message
	next    uint64
}

func newLoad(partition uint32) *load {
	l := &load{gc: &witnessv1.Message{Kind: witnessv1.Kind_GC, Partition: partition, Term: 1}}
	for range gcEvery {
		l.records = append(l.records, &witnessv1.Message{
			Kind: witnessv1.Kind_RECORD, Partition: partition, Term: 1, Hashes: []uint64{0},
			Id: &witnessv1.ID{Session: 7}, Request: make([]byte, 100),
		})
		l.gc.Drops = append(l.gc.Drops, &witnessv1.Drop{Id: &witnessv1.ID{Session: 7}})
	}
	return l
}

// advance names the next requests.
func (l *load) advance() {
	for i, m := range l.records {
		l.next++
		m.Id.Number, m.Hashes[0] = l.next, l.next*0x9e3779b97f4a7c15
		l.gc.Drops[i].Id.Number, l.gc.Drops[i].Hash = m.Id.Number, m.Hashes[0]
	}
}

func BenchmarkRecord(b *testing.B) {
	for name, volatile := range map[string]bool{"Memory": true, "Sync": false} {
		b.Run(name, func(b *testing.B) {
			w, err := New(Config{Volatile: volatile})
			if err != nil {
				b.Fatal(err)
			}
			w.Receive(Manager, &witnessv1.Message{Kind: witnessv1.Kind_START, Partition: 3, Term: 1})
			l := newLoad(3)
			round := func() {
				l.advance()
				for _, m := range l.records {
					w.Receive(1, m)
				}
				w.Receive(1, l.gc)
				w.Reuse(w.Ready())
			}
			round()
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += gcEvery {
				round()
			}
			b.StopTimer()
			s := w.Stats()
			if s.Conflicts+s.Full+s.Refused > s.Accepted/100 {
				b.Fatalf("%+v", s)
			}
			b.ReportMetric(float64(s.Accepted)/b.Elapsed().Seconds(), "accepted/s")
		})
	}
}

// BenchmarkMemory tells the memory that a master costs: once its life has begun, after 1000 rounds of 50 requests, each
// with its gc, and when every slot holds a request of the largest size.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := heap()
		w, err := New(Config{Volatile: true})
		if err != nil {
			b.Fatal(err)
		}
		w.Receive(Manager, &witnessv1.Message{Kind: witnessv1.Kind_START, Partition: 3, Term: 1})
		w.Reuse(w.Ready())
		b.ReportMetric(heap()-before, "begun-B")
		l := newLoad(3)
		for range 1000 {
			l.advance()
			for _, m := range l.records {
				w.Receive(1, m)
			}
			w.Receive(1, l.gc)
			w.Reuse(w.Ready())
		}
		b.ReportMetric(heap()-before, "used-B")
		random := rand.New(rand.NewPCG(1, 1))
		m := l.records[0]
		m.Request = make([]byte, cache.MaxRequest)
		for w.Lives()[0].Held < cache.DefaultSlots {
			m.Id.Number++
			m.Hashes[0] = random.Uint64()
			w.Receive(1, m)
			w.Reuse(w.Ready())
		}
		b.ReportMetric(heap()-before, "full-B")
		runtime.KeepAlive(w)
	}
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
