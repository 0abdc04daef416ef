package meter

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// answers gives the same result to every operation, at once.
type answers struct{ result register.Result }

func (a answers) Submit(_ register.Operation, _ time.Duration, done func(register.Result)) {
	done(a.result)
}

func TestMeterCountsByKindAndOutcome(t *testing.T) {
	store := &answers{}
	m := New(store)
	submit := func(kind register.Kind, result register.Result) {
		store.result = result
		m.Submit(register.Operation{Kind: kind}, time.Second, func(got register.Result) {
			if got.Status != result.Status {
				t.Errorf("answer %v, want %v", got.Status, result.Status)
			}
		})
	}
	m.store = store
	submit(register.Read, register.Result{Status: register.OK, RoundTrips: 1, Fast: true})
	submit(register.Read, register.Result{Status: register.OK, RoundTrips: 2})
	submit(register.RMW, register.Result{Status: register.Failed, RoundTrips: 2})
	submit(register.RMW, register.Result{Status: register.Unsupported})
	submit(register.RMW, register.Result{Status: register.Unknown})
	submit(register.Kind(77), register.Result{Status: register.Invalid})

	read, rmw := m.Read(register.Read), m.Read(register.RMW)
	if read.Answered != 2 || read.Fast != 1 || read.RoundTrips != 3 || sum(read.Latency) != 2 {
		t.Errorf("reads: %+v", read)
	}
	if rmw.Answered != 1 || rmw.Refused != 1 || rmw.Unanswered != 1 || rmw.RoundTrips != 2 || sum(rmw.Latency) != 1 {
		t.Errorf("rmws: %+v", rmw)
	}
	all := read.Plus(rmw)
	if all.Answered != 3 || sum(all.Latency) != 3 {
		t.Errorf("all: %+v", all)
	}
	if d := all.Since(read); d.Answered != 1 || d.Fast != 0 || sum(d.Latency) != 1 {
		t.Errorf("all since the reads: %+v", d)
	}
}

func sum(counts []uint64) (total uint64) {
	for _, n := range counts {
		total += n
	}
	return total
}

func TestBucketsAreNarrow(t *testing.T) {
	last := -1
	for us := uint64(0); us < 1<<27; us += 1 + us/1000 {
		d := time.Duration(us) * time.Microsecond
		i := bucket(d)
		if i < last || i > last+1 && us > 0 || i >= Buckets {
			t.Fatalf("%v is in bucket %d after %d", d, i, last)
		}
		if off := math.Abs(float64(middle(i) - d)); off > 0.032*float64(d)+float64(time.Microsecond) {
			t.Fatalf("%v counts as %v", d, middle(i))
		}
		last = i
	}
	if got := bucket(time.Hour); got != Buckets-1 {
		t.Errorf("an hour is in bucket %d of %d", got, Buckets)
	}
	if got := bucket(-time.Second); got != 0 {
		t.Errorf("a negative latency is in bucket %d", got)
	}
}

func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := New(nil)
	var took []time.Duration
	for range 10_000 {
		d := time.Duration(rng.ExpFloat64() * float64(50*time.Millisecond))
		took = append(took, d)
		m.kinds[register.Write].count(register.Result{Status: register.OK}, d)
	}
	slices.Sort(took)
	reading := m.Read(register.Write)
	for _, share := range []float64{0.1, 0.5, 0.9, 0.99, 1} {
		want := took[int(math.Ceil(share*float64(len(took))))-1]
		got := reading.Quantile(share)
		if off := math.Abs(float64(got - want)); off > 0.04*float64(want)+float64(time.Microsecond) {
			t.Errorf("quantile %v is %v, want %v", share, got, want)
		}
	}
	if got := (Reading{}).Quantile(0.5); got != 0 {
		t.Errorf("a quantile of nothing: %v", got)
	}
}
