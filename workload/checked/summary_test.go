package checked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
	"github.com/georegister/georegister/workload"
)

func TestCountersTellWhoIsSilent(t *testing.T) {
	counts := newCounters([]workload.Site{{Name: "a"}, {Name: "b"}})
	counts.add(history.Operation{Site: "a", Result: register.Result{Status: register.OK}})
	counts.add(history.Operation{Site: "b", Result: register.Result{Status: register.Unavailable}})
	counts.add(history.Operation{Site: "b", Result: register.Result{Status: register.Unknown}})
	last := counts.last["a"]
	counts.last["b"] = last.Add(-7 * time.Second)
	want := "3 operations, 1 unavailable, 1 unknown, no success at site b for 9 s"
	if got := counts.line(last.Add(2*time.Second), 5*time.Second); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A report must fit into a termination message, with the most sites that a cluster can have and a long reason.
func TestSummaryIsShort(t *testing.T) {
	recorder := history.NewRecorder(nil)
	for i := range 13 {
		site := fmt.Sprintf("site-with-%05d", i)
		recorder.Invoke("c", site, register.Operation{Kind: register.Read,
			Key: "k"}).Return(register.Result{Status: register.OK})
	}
	s := &Summary{}
	s.fill(recorder.Operations(), history.LongestGaps(recorder.Operations()))
	s.conclude(errors.Join(errors.New(strings.Repeat("é", 5000)), ErrViolation))
	text, err := json.Marshal(s)
	if err != nil || len(text) > 4000 || s.Verdict != Violated || len(s.Sites) != 13 {
		t.Errorf("%d bytes, %v: %s", len(text), err, text)
	}
}

// A member that was healed just now needs a moment: its keys are read again until it answers.
func TestReadBackIsPatient(t *testing.T) {
	tries := 0
	read := func(patience time.Duration, until int, status register.Status) error {
		tries = 0
		doer := doing(func(register.Operation) register.Result {
			if tries++; tries >= until {
				return register.Result{Status: register.OK}
			}
			return register.Result{Status: status, Message: "later"}
		})
		return reader{site: "a", doer: doer, recorder: history.NewRecorder(nil),
			patience: patience}.read(context.Background(), "k")
	}
	if err := read(time.Minute, 3, register.Unavailable); err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	const late = `read back key "k" at site a: unknown: later`
	if err := read(time.Nanosecond, 1000, register.Unknown); err == nil || !strings.Contains(err.Error(), late) {
		t.Errorf("without patience: %v", err)
	}
	if err := read(time.Minute, 3, register.Failed); err == nil || tries != 1 {
		t.Errorf("a refusal was tried %d times: %v", tries, err)
	}
}

// A verdict on a part of the load would be taken for one on all of it.
func TestVerificationThatEndsEarly(t *testing.T) {
	v := verification(t, &listenertest.Memory{Delay: time.Millisecond})
	v.Duration, v.Report = time.Hour, filepath.Join(t.TempDir(), "report")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &trigger{on: " operations", do: func() { cancel(errors.New("told to stop")) }}
	err := v.Run(ctx, out)
	if err == nil || errors.Is(err, ErrViolation) ||
		!strings.Contains(err.Error(), "the load was interrupted: told to stop") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(v.Report); err != nil || !strings.Contains(string(text), `"verdict":"undecided"`) {
		t.Errorf("%v: %s", err, text)
	}
	err = v.whole(t.Context(), MaxOperations)
	if err == nil || !strings.Contains(err.Error(), "give a longer --every") {
		t.Errorf("a load that filled the memory: %v", err)
	}
}

// trigger is a writer that does something once it is told a text.
type trigger struct {
	on string
	do func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.on) {
		w.do()
	}
	return len(p), nil
}
