package simulator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// toyFaults are those that the toy survives.
func toyFaults() []faults.Kind {
	return faults.Without(plain(faults.Kinds()), faults.Outage, faults.Wipe, faults.OldCopy, faults.Rot, faults.Change)
}

func toyOptions() schedule.Options {
	return schedule.Options{Faults: toyFaults(), RMWs: schedule.ManyRMWs}
}

func TestToySurvives(t *testing.T) {
	t.Parallel()
	seeds := 300
	if testing.Short() {
		seeds = 50
	}
	r := Search{Start: startToy(toyMistakes{}), Options: toyOptions(), First: 1, Seeds: seeds}.Run(context.Background())
	for _, f := range r.Failures {
		t.Errorf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
	}
	if missing := r.Missing([]string{"execute", "retry"}); missing != nil {
		t.Errorf("paths never taken: %v", missing)
	}
	if r.Schedules < seeds*3/4 || r.Operations < 100*seeds || r.Hits < MinHits*r.Schedules {
		t.Errorf("%d of %d schedules count, with %d operations and %d hits", r.Schedules, seeds, r.Operations, r.Hits)
	}
}

func TestMistakesOfToyAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		wrong toyMistakes
		class check.Class
		seeds int
	}{
		{"answers before it is durable", toyMistakes{answerEarly: true}, check.Violation, 100},
		{"reads one replica", toyMistakes{readLocally: true}, check.Violation, 5},
		{"executes a retried rmw again", toyMistakes{forgetCalls: true}, check.Violation, 50},
		{"never asks again", toyMistakes{neverRetry: true}, check.Unbounded, 50},
		{"goes deaf", toyMistakes{deaf: true}, check.Stuck, 50},
		{"completes twice", toyMistakes{completeMore: true}, check.Broken, 1},
		{"changes a sent message", toyMistakes{touchSent: true}, check.Broken, 50},
		{"keeps what is over", toyMistakes{leak: true}, check.Unbounded, 1},
		{"asks without end", toyMistakes{echo: true}, check.Broken, 1},
		{"performs what is no operation", toyMistakes{performAll: true}, check.Breach, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := find(drawn(toyOptions()), startToy(c.wrong), 0, c.seeds, nil)
			if f == nil {
				t.Fatalf("not found within %d seeds", c.seeds)
			}
			if f.Class != c.class {
				t.Errorf("found as %v, not as %s", f, c.class)
			}
		})
	}
}

// bytesOf is a history as it is written to a file.
func bytesOf(t *testing.T, operations []history.Operation) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := history.WriteRecord(&b, history.Record{Operations: operations}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSeedReplays(t *testing.T) {
	t.Parallel()
	const golden = "7f890188b9862fe45441a587f71ef67b3601d90fe1707b720501fdbc444f87c9"
	hash := sha256.New()
	for seed := range uint64(10) {
		run := func() []byte {
			return bytesOf(t, Run(schedule.Draw(seed, toyOptions()), startToy(toyMistakes{}), nil).History)
		}
		first := run()
		if !bytes.Equal(first, run()) {
			t.Fatalf("seed %d gives two histories", seed)
		}
		hash.Write(first)
	}
	// The same on every machine: it changes only with how schedules are drawn, or with the format of histories.
	if got := hex.EncodeToString(hash.Sum(nil)); got != golden {
		t.Errorf("histories hash to %s, want %s", got, golden)
	}
}

func TestShrinkAndExplain(t *testing.T) {
	t.Parallel()
	f := find(drawn(toyOptions()), startToy(toyMistakes{answerEarly: true}), 0, 100, nil)
	if f == nil {
		t.Fatal("no failure to shrink")
	}
	small := Shrink(t.Context(), f)
	size := func(s schedule.Schedule) (operations int) {
		for _, c := range s.Clients {
			operations += len(c.Operations)
		}
		return operations
	}
	if small.Class != f.Class || size(small.Schedule) > 5 || len(small.Schedule.Faults) > 2 {
		t.Errorf("shrunk to %s with %d operations and faults %v", small.Class, size(small.Schedule), small.Schedule.Faults)
	}
	if again := Run(small.Schedule, small.start, nil); again.Failure == nil || again.Failure.Class != f.Class {
		t.Error("the short schedule does not fail again")
	}
	text := Explain(small)
	for _, want := range []string{"violation", "fault:", "lanes", "crashes", "starts, boot 2", "durable", " = "} {
		if !strings.Contains(text, want) {
			t.Errorf("the diagram lacks %q:\n%s", want, text)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log(text)
	}
}

func TestParseFaults(t *testing.T) {
	for list, want := range map[string]int{"none": 0, "": 0, "all": len(faults.Kinds()), "crash, loss": 2, "wipe,wipe": 1} {
		if got, err := faults.Parse(list, faults.Kinds()); err != nil || len(got) != want {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	if _, err := faults.Parse("crash,fire", faults.Kinds()); err == nil || !strings.Contains(err.Error(), `"fire"`) {
		t.Errorf("%v", err)
	}
}
