package netem

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// half is a die that always shows the middle: no jitter.
func half() float64 { return 0.5 }

func seeded() func() float64 { return rand.New(rand.NewPCG(1, 2)).Float64 }

func TestEveryPacketIsDelayedByExactlyTheDelay(t *testing.T) {
	l := NewLink(Spec{Delay: 90 * ms, Limit: 1 << 20}, half)
	for i := range 1000 {
		now := time.Duration(i*i) * time.Microsecond
		if due, ok := l.Admit(now, 1500); !ok || due != now+90*ms {
			t.Fatalf("packet at %v: due at %v, %v", now, due, ok)
		}
	}
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	l := NewLink(Spec{Delay: 20 * ms, Jitter: 5 * ms, Limit: 1 << 20}, seeded())
	var shortest, longest, sum time.Duration = time.Hour, 0, 0
	const packets = 10000
	for range packets {
		due, _ := l.Admit(0, 0)
		shortest, longest, sum = min(shortest, due), max(longest, due), sum+due
	}
	if shortest < 15*ms || longest > 25*ms || shortest > 15*ms+100*time.Microsecond ||
		longest < 25*ms-100*time.Microsecond {
		t.Errorf("delays are from %v to %v, want all of 15 ms to 25 ms", shortest, longest)
	}
	if mean := sum / packets; (mean - 20*ms).Abs() > 200*time.Microsecond {
		t.Errorf("the mean delay is %v, want 20 ms", mean)
	}
	l = NewLink(Spec{Delay: ms, Jitter: 5 * ms}, func() float64 { return 0 })
	if due, _ := l.Admit(7*ms, 0); due != 7*ms {
		t.Errorf("a packet is due at %v, before it came at 7 ms", due)
	}
}

func TestCorrelatedJitterStaysNearTheOneBefore(t *testing.T) {
	l := NewLink(Spec{Delay: 20 * ms, Jitter: 10 * ms, DelayCorrelation: 0.99, Limit: 1 << 20}, seeded())
	before, _ := l.Admit(0, 0)
	for range 1000 {
		due, _ := l.Admit(0, 0)
		if (due - before).Abs() > 200*time.Microsecond {
			t.Fatalf("a delay of %v follows one of %v", due, before)
		}
		before = due
	}
}

func TestLoss(t *testing.T) {
	l := NewLink(Spec{Loss: 0.3, Limit: 1 << 20}, seeded())
	lost := 0
	for range 10000 {
		if _, ok := l.Admit(0, 0); !ok {
			lost++
		}
	}
	if lost < 2800 || lost > 3200 || l.lost != uint64(lost) {
		t.Errorf("%d of 10,000 packets are lost, want 3,000; %d are counted", lost, l.lost)
	}
	l = NewLink(Spec{Loss: 1}, seeded())
	if _, ok := l.Admit(0, 0); ok {
		t.Error("a link that loses all let a packet through")
	}
}

func TestRate(t *testing.T) {
	l := NewLink(Spec{Delay: 30 * ms, Rate: 1e6}, half) // 1000 bytes take 1 ms
	var got []time.Duration
	for _, packet := range []struct {
		at   time.Duration
		size int
	}{{0, 1000}, {0, 1000}, {0, 2000}, {100 * ms, 1000}} {
		due, _ := l.Admit(packet.at, packet.size)
		got = append(got, due)
	}
	if want := []time.Duration{31 * ms, 32 * ms, 34 * ms, 131 * ms}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLimit(t *testing.T) {
	l := NewLink(Spec{Limit: 2}, half)
	for i, want := range []bool{true, true, false} {
		if _, ok := l.Admit(0, 0); ok != want {
			t.Errorf("packet %d: %v, want %v", i, ok, want)
		}
	}
	l.Leave(0)
	if _, ok := l.Admit(0, 0); !ok {
		t.Error("no packet is taken after one has left")
	}
	if l := NewLink(Spec{}, half); l.limit() != 45000 {
		t.Errorf("without a limit, %d packets are held, want 45,000", l.limit())
	}
}

func TestRouteOfSeveralLinks(t *testing.T) {
	first, second := NewLink(Spec{Delay: ms}, half), NewLink(Spec{Delay: 2 * ms, Limit: 1}, half)
	r := Route{Path: []*Link{first, second}}
	if due, ok := r.Admit(5*ms, 0); !ok || due != 8*ms {
		t.Errorf("due at %v, %v, want 8 ms", due, ok)
	}
	if _, ok := r.Admit(5*ms, 0); ok {
		t.Error("the second link's limit is passed")
	}
	if first.held != 1 || second.held != 1 {
		t.Errorf("the links hold %d and %d packets, want 1 and 1: the lost one is in none", first.held, second.held)
	}
	r.Leave(ms)
	if mean, longest := second.Lag(); first.held != 0 || second.held != 0 || mean != ms || longest != ms {
		t.Errorf("after it has left: %v; %v", first, second)
	}
}

func TestScheduleIsInOrderOfTimeAndThenOfArrival(t *testing.T) {
	var s Schedule[int]
	if _, ok := s.Next(); ok {
		t.Error("something is due in an empty schedule")
	}
	var firsts []bool
	for i, due := range []time.Duration{3 * ms, 1 * ms, 2 * ms, 1 * ms, 3 * ms} {
		firsts = append(firsts, s.Put(due, i))
	}
	if want := []bool{true, true, false, false, false}; !slices.Equal(firsts, want) {
		t.Errorf("first: got %v, want %v", firsts, want)
	}
	if _, _, ok := s.Take(ms - 1); ok {
		t.Error("something is given back before it is due")
	}
	var got []int
	for now := ms; now <= 3*ms; now += ms {
		for {
			what, due, ok := s.Take(now)
			if !ok {
				break
			}
			if due > now {
				t.Errorf("%d is due at %v and given back at %v", what, due, now)
			}
			got = append(got, what)
		}
	}
	if want := []int{1, 3, 2, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func BenchmarkAdmitAndRelease(b *testing.B) {
	l := NewLink(Spec{Delay: 90 * ms, Limit: b.N + 1}, half)
	r := Route{Path: []*Link{l}}
	var s Schedule[uint32]
	for i := range b.N {
		now := time.Duration(i) * 100 * time.Microsecond
		due, _ := r.Admit(now, 1500)
		s.Put(due, uint32(i))
		for {
			_, due, ok := s.Take(now)
			if !ok {
				break
			}
			r.Leave(now - due)
		}
	}
}
