package workload

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

func measured(site string, kind register.Kind, latency time.Duration, status register.Status) history.Operation {
	return history.Operation{
		Site: site, Request: register.Operation{Kind: kind}, Returned: latency,
		Result: register.Result{Status: status, RoundTrips: 1, Fast: latency < 50*time.Millisecond},
	}
}

func TestReportInJSON(t *testing.T) {
	r := NewReport()
	for i := range 100 {
		r.Record(measured("ca", register.Read, time.Duration(i+1)*time.Millisecond, register.OK))
	}
	r.Record(measured("va", register.Write, 2*time.Hour, register.OK))
	r.Record(measured("va", register.Write, time.Millisecond, register.Unknown))
	r.Verdict = history.Linearizable
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict    string
		Operations map[string]struct {
			Overall map[string]float64
			Sites   map[string]map[string]float64
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Verdict != "linearizable" || len(got.Operations) != 2 {
		t.Fatalf("got %s", text)
	}
	reads := got.Operations["read"]
	want := map[string]float64{
		"count": 100, "p50_ms": 50, "p90_ms": 90, "p99_ms": 99, "p999_ms": 100, "max_ms": 100, "round_trips": 1,
		"fast_path_rate": 0.49,
	}
	for _, figures := range []map[string]float64{reads.Overall, reads.Sites["ca"]} {
		if !slices.Equal(slices.Sorted(maps.Keys(figures)), slices.Sorted(maps.Keys(want))) {
			t.Errorf("fields %v", figures)
		}
		for name, value := range want {
			if got := figures[name]; got < value || got > 1.001*value {
				t.Errorf("%s is %v, want %v within 0.1%%", name, got, value)
			}
		}
	}
	if writes := got.Operations["write"].Sites["va"]; writes["count"] != 1 || writes["max_ms"] != 3_600_000 {
		t.Errorf("a write of two hours is measured as %v", writes)
	}
	if r.Outcomes()[register.Unknown] != 1 || r.Operations() != 101 {
		t.Errorf("outcomes %v, %d operations", r.Outcomes(), r.Operations())
	}
}

func TestReportAsTable(t *testing.T) {
	r := NewReport()
	r.Record(measured("ca", register.Read, 72*time.Millisecond, register.OK))
	r.Record(measured("ca", register.RMW, 0, register.Failed))
	r.Record(measured("ca", register.Write, 0, register.Unavailable))
	r.Verdict = history.Violation
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"p99.9 ms", "read", "72.0", "failed: 1 operations", "unavailable: 1 operations", "verdict: violation",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
}

// store is a register in memory behind a lock.
type store struct {
	mu       sync.Mutex
	registry *register.Registry
	values   map[string]register.Value
	closed   atomic.Int64
}

func (s *store) Do(_ context.Context, op register.Operation) register.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch op.Kind {
	case register.Read:
		return register.Result{Status: register.OK, Value: s.values[op.Key]}
	case register.Write:
		s.values[op.Key] = op.Value
		return register.Result{Status: register.OK}
	}
	out, err := s.registry.Apply(s.values[op.Key], op.Call)
	if err != nil {
		return register.Result{Status: register.Invalid, Message: err.Error()}
	}
	if out.Refused != "" {
		return register.Result{Status: register.Failed, Message: out.Refused}
	}
	if out.Changed {
		s.values[op.Key] = out.Next
	}
	return register.Result{Status: register.OK, Value: out.Reply}
}

func (s *store) Close() error {
	s.closed.Add(1)
	return nil
}

func newStore() *store {
	return &store{registry: register.NewRegistry(), values: map[string]register.Value{}}
}

func (s *store) connect(context.Context, int) (Doer, error) { return s, nil }

func TestLoopRecordsALinearizableHistory(t *testing.T) {
	s, recorder := newStore(), history.NewRecorder(nil)
	spec := Default()
	spec.Mix, spec.RMWs, spec.Conflict = Mix{Read: 1, Write: 1, RMW: 1}, RMWMixed, 0.5
	var ended atomic.Int64
	report, err := Loop{
		Spec: spec, Sites: []Site{{"ca", s.connect}, {"va", s.connect}}, Clients: 3, Seed: 1, Operations: 2000,
		Recorder: recorder, Progress: func(history.Operation) { ended.Add(1) },
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	operations := recorder.Operations()
	if len(operations) != 2000 || report.Operations() != 2000 || ended.Load() != 2000 || s.closed.Load() != 6 {
		t.Errorf("%d operations in the history, %d in the report, %d reported as they ended, %d clients closed",
			len(operations), report.Operations(), ended.Load(), s.closed.Load())
	}
	if v := history.Check(t.Context(), operations, history.Options{Timeout: time.Minute}); !v.OK() {
		t.Errorf("%s: %s", v.Outcome, v.Explanation)
	}
	// Spoil the run's own history, to see that the check above could have failed.
	for i, o := range operations {
		if o.Request.Kind == register.Read && o.Result.Value.Present() {
			operations[i].Result.Value = register.Value("never written")
			break
		}
	}
	if v := history.Check(t.Context(), operations, history.Options{Timeout: time.Minute, Brief: true}); v.OK() {
		t.Error("a spoilt history is accepted")
	}
}

func TestLoopEnds(t *testing.T) {
	s := newStore()
	ctx, cancel := context.WithCancel(t.Context())
	var ended atomic.Int64
	_, err := Loop{Spec: Default(), Sites: []Site{{"ca", s.connect}}, Clients: 2, Duration: time.Hour,
		Progress: func(history.Operation) {
			if ended.Add(1) == 100 {
				cancel()
			}
		}}.Run(ctx)
	if err != nil {
		t.Errorf("a cancelled run fails: %v", err)
	}
	if _, err := (Loop{Spec: Default(), Sites: []Site{{"ca", s.connect}}, Clients: 2, Duration: time.Nanosecond}).Run(
		t.Context()); err != nil {
		t.Errorf("a short run fails: %v", err)
	}
}

func TestLoopSaysWhatIsWrong(t *testing.T) {
	s, refused := newStore(), errors.New("refused")
	sites := []Site{{"ca", s.connect}}
	tests := []struct {
		loop Loop
		err  string
	}{
		{Loop{Spec: Default(), Clients: 1, Operations: 1}, "no sites"},
		{Loop{Spec: Default(), Sites: sites, Operations: 1}, "0 clients"},
		{Loop{Spec: Default(), Sites: sites, Clients: 1}, "no bound"},
		{Loop{Sites: sites, Clients: 1, Operations: 1}, "all weights are 0"},
		{Loop{Spec: Default(), Clients: 1, Operations: 1,
			Sites: append(sites, Site{"va", func(context.Context, int) (Doer, error) {
				return nil, refused
			}})}, "connect client 1 at site va: refused"},
	}
	for _, test := range tests {
		if _, err := test.loop.Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("got %v, want %q", err, test.err)
		}
	}
	if s.closed.Load() != 1 {
		t.Errorf("%d clients closed after a failed start, want the one that was connected", s.closed.Load())
	}
}
