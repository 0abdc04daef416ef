package workload

import (
	"context"
	"sync"
	"testing"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// Clients that fence do so every so often and at their end, between operations, and only what has ended is recorded.
func TestLoopFences(t *testing.T) {
	const every, operations = 10, 45
	var mu sync.Mutex
	asked, fences := 0, 0
	do := doerFunc(func(op register.Operation) register.Result {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind != register.Fence {
			asked++
			return register.Result{Status: register.OK}
		}
		if fences++; asked%every != 0 && asked < operations || fences == 2 {
			return register.Result{Status: register.Unavailable}
		}
		return register.Result{Status: register.OK}
	})
	recorder := history.NewRecorder(nil)
	report, err := Loop{
		Spec: Default(), Clients: 1, Operations: operations, FenceEvery: every, Recorder: recorder,
		Sites: []Site{{Name: "a", Connect: func(context.Context, int) (Doer, error) { return do, nil }}},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	record := recorder.Record()
	if asked != operations || fences != 5 || len(record.Fences) != 4 || len(record.Operations) != operations {
		t.Errorf("%d operations and %d fences; %d and %d are recorded", asked, fences,
			len(record.Operations), len(record.Fences))
	}
	last := record.Fences[len(record.Fences)-1]
	if last.Client != record.Operations[0].Client || last.Invoked < record.Operations[operations-1].Returned {
		t.Errorf("the last fence is %+v", last)
	}
	if n := len(report.Figures()); n > 3 {
		t.Errorf("the report has %d kinds of operations", n)
	}
}

// doerFunc is a doer that is a function.
type doerFunc func(register.Operation) register.Result

func (d doerFunc) Do(_ context.Context, op register.Operation) register.Result { return d(op) }
