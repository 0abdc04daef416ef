package history

import (
	"bufio"
	"context"
	"math/rand/v2"
	"strings"
	satomic "sync/atomic"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// countdown is a context that ends when it has been looked at so often.
type countdown struct {
	context.Context
	left satomic.Int64
}

func endsAfter(t *testing.T, looks int64) *countdown {
	c := &countdown{Context: t.Context()}
	c.left.Store(looks)
	return c
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// hard is a history whose check takes longer than anybody waits: many clients append at once and no one looks before
// the end, so that all orders must be tried.
func hard() []Operation {
	var history []Operation
	for i := range 24 {
		history = append(history,
			unknown(rmw(string(rune('a'+i)), 1, 0, "", register.Append, strings.Repeat(string(rune('a'+i)), 1+i%3))))
	}
	return append(history, readOf("z", 2, 3, strings.Repeat("-", 40)))
}

// Wherever a check is when its context ends, it ends too, and has proved nothing: neither that an order exists nor that
// none does.
func TestAStoppedCheckProvesNothing(t *testing.T) {
	limit := Options{Timeout: time.Minute} // a check that goes on ends with it
	for looks := int64(0); looks < 2_000_000; looks = 2*looks + 1 {
		if v := Check(endsAfter(t, looks), hard(), limit); v.Outcome != Stopped || v.OK() ||
			!strings.Contains(v.Explanation, "stopped") {
			t.Fatalf("after %d looks: %s: %s", looks, v.Outcome, v.Explanation)
		}
	}
	// The order of these is proved by hand, with a fair number of looks; and some are not linearizable.
	for seed := range uint64(20) {
		history := atomic64(seed)
		want := Check(t.Context(), history, limit).Outcome
		for looks := int64(0); looks < 2000; looks = looks*5/4 + 1 {
			if got := Check(endsAfter(t, looks), history, limit).Outcome; got != want && got != Stopped {
				t.Fatalf("seed %d: after %d looks %s, but %s is right", seed, looks, got, want)
			}
		}
		want = mustRSC(t, t.Context(), history)
		for looks := int64(0); looks < 2000; looks = looks*5/4 + 1 {
			if got := mustRSC(t, endsAfter(t, looks), history); got != want && got != Stopped {
				t.Fatalf("seed %d: by rsc, after %d looks %s, but %s is right", seed, looks, got, want)
			}
		}
	}
	if v, err := CheckRSC(endsAfter(t, 5000), hard(), RSCOptions{MaxStates: 1 << 40}); err != nil ||
		v.Outcome != Stopped || v.OK() {
		t.Errorf("by rsc: %s, %v", v.Outcome, err)
	}
}

// atomic64 is a short history with and without carstamps; of each second one, an answer is wrong.
func atomic64(seed uint64) []Operation {
	rng := rand.New(rand.NewPCG(seed, 7))
	history := atomic(rng, shape{operations: 64, clients: 6, keys: 2, unknown: 0.1, hints: seed%4 < 2})
	if seed%2 == 0 {
		return history
	}
	for i := range history {
		if o := &history[i]; o.Request.Kind == register.Read && o.Result.Status == register.OK {
			o.Result.Value = register.Value("never written")
			break
		}
	}
	return history
}

func mustRSC(t *testing.T, ctx context.Context, history []Operation) Outcome {
	t.Helper()
	v, err := CheckRSC(ctx, history, RSCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v.Outcome
}

func TestReadingIsBounded(t *testing.T) {
	const line = `{"client":"a","kind":"write","key":"k","value":"v","invoked_ns":1,"returned_ns":2,"status":"ok"}` +
		"\n"
	_, err := ReadRecord(endsAfter(t, 3), strings.NewReader(strings.Repeat(line, 10)), false)
	if err == nil || !strings.HasPrefix(err.Error(), "line 4: stopped") {
		t.Errorf("a reader whose context ends before the 4th line: %v", err)
	}
	// A line that fits exactly, and one that does not, whatever the size of the buffer.
	for _, extra := range []int{0, 1} {
		spaces := strings.Repeat(" ", MaxLine-len(line)+extra)
		_, err := ReadRecord(t.Context(), bufio.NewReaderSize(strings.NewReader(line+spaces+line), 1<<16), false)
		if extra == 0 && err != nil ||
			extra == 1 && (err == nil || !strings.Contains(err.Error(), "line 2: longer than 128 MiB")) {
			t.Errorf("a line of %d bytes: %v", MaxLine+extra, err)
		}
	}
}
