package register

import (
	"slices"
	"strings"
	"testing"
)

// in is the shard of a key, which begins with it.
func in(key string) int { return int(key[0] - '0') }

func of(keys ...string) (all []Dependency) {
	for i, key := range keys {
		all = append(all, Dependency{Key: key, Versioned: Versioned{Carstamp: Carstamp{Timestamp: uint64(i + 1)}}})
	}
	return all
}

func keysOf(after []Dependency) string {
	var keys []string
	for _, d := range after {
		keys = append(keys, d.Key)
	}
	return strings.Join(keys, " ")
}

func TestABarrierFencesWhatIsOfOtherShards(t *testing.T) {
	for name, test := range map[string]struct {
		operation Operation
		parts     []string // by shard: the keys fenced there
		own       string
	}{
		"nothing": {Operation{Kind: Write, Key: "0w"}, nil, ""},
		"its own": {Operation{Kind: Write, Key: "0w", After: of("0a", "0b")}, nil, "0a 0b"},
		"others": {
			Operation{Kind: Read, Key: "0r", After: of("2a", "1b", "2c")}, []string{"2: 2a 2c", "1: 1b"}, "",
		},
		"its own, others": {
			Operation{Kind: Write, Key: "1n", After: of("2a", "1b", "0c", "1n")},
			[]string{"2: 2a", "1: 1b", "0: 0c"}, "1n",
		},
		"its own, others, of an rmw": {
			Operation{Kind: RMW, Key: "1n", After: of("2a", "1n")}, []string{"2: 2a", "1: 1n"}, "",
		},
		"a fence":           {Operation{Kind: Fence, After: of("0a", "1b")}, []string{"0: 0a", "1: 1b"}, ""},
		"a fence of nought": {Operation{Kind: Fence}, nil, ""},
	} {
		b, parts := NewBarrier(test.operation, in)
		var got []string
		for _, p := range parts {
			if p.Fence.Kind != Fence {
				t.Errorf("%s: a part is a %s", name, p.Fence.Kind)
			}
			got = append(got, string(rune('0'+p.Shard))+": "+keysOf(p.Fence.After))
		}
		if !slices.Equal(got, test.parts) || keysOf(b.Operation().After) != test.own ||
			b.Operation().Key != test.operation.Key {
			t.Errorf("%s: fences %q, and goes on after %q", name, got, keysOf(b.Operation().After))
		}
	}
}

func TestABarrierGoesOnAfterTheLastFence(t *testing.T) {
	ok := func(trips int) Result { return Result{Status: OK, RoundTrips: trips} }
	write := Operation{Kind: Write, Key: "0w", After: of("1a", "2b")}
	b, _ := NewBarrier(write, in)
	if step, _ := b.Fenced(2, ok(3)); step != BarrierWaits {
		t.Errorf("after one of two fences: %d", step)
	}
	if step, _ := b.Fenced(1, ok(1)); step != BarrierGoesOn || b.RoundTrips() != 3 {
		t.Errorf("after both fences: %d, %d round trips", step, b.RoundTrips())
	}
	b, _ = NewBarrier(Operation{Kind: Fence, After: write.After}, in)
	b.Fenced(2, ok(1))
	if step, r := b.Fenced(1, ok(2)); step != BarrierEnds || r.Status != OK || r.RoundTrips != 2 {
		t.Errorf("a fence: %d, %+v", step, r)
	}
	b, _ = NewBarrier(write, in)
	if step, r := b.Fenced(1, Result{Status: Unknown, Message: "too late"}); step != BarrierEnds ||
		r.Status != Unavailable ||
		!strings.Contains(r.Message, "in shard 1") || !strings.Contains(r.Message, "too late") {
		t.Errorf("a fence that fails: %d, %+v", step, r)
	}
	if step, _ := b.Fenced(2, ok(1)); step != BarrierWaits {
		t.Errorf("a fence after one that failed: %d", step)
	}
}
