package operation_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/register"
)

// recorder is a store that keeps what is submitted, for a test to answer.
type recorder struct{ submitted []submitted }

type submitted struct {
	op   register.Operation
	done func(register.Result)
}

func (r *recorder) Submit(op register.Operation, _ time.Duration, done func(register.Result)) {
	r.submitted = append(r.submitted, submitted{op, done})
}

// take returns what was submitted since the last call.
func (r *recorder) take() []submitted {
	all := r.submitted
	r.submitted = nil
	return all
}

// An operation that waits for a fence comes after more than it can carry. When its connection ends meanwhile, the rest
// of what the session has read is gone with it, so the operation must not be submitted without that.
func TestNothingIsSubmittedWithoutThePastOfAClosedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recorder{}
		o, err := operation.Options{
			Store: store, Identity: operation.Identity{Protocol: "GryffRSC"}, Proofs: &proof.Keys{},
			Metrics: operation.NewMetrics(prometheus.NewRegistry()),
		}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		counters := o.Metrics.Listener("test")
		session := operation.NewSession(&o, &counters, func(int) {})
		deadline := time.Now().Add(time.Minute)
		for i := range register.MaxDependencies + 4 { // all are under way at once
			read := operation.Pending{Op: register.Operation{Kind: register.Read, Key: fmt.Sprint("k", i)}}
			read.Init(session, func(register.Result) {})
			session.Submit(&read, deadline)
		}
		for i, s := range store.take() {
			s.done(register.Result{
				Status: register.OK, Depends: true, Value: register.Value("v"),
				Carstamp: register.Carstamp{Timestamp: uint64(i + 1), Writer: 1},
			})
		}
		var result *register.Result
		write := operation.Pending{
			Op: register.Operation{Kind: register.Write, Key: "k", Value: register.Value("after")},
		}
		write.Init(session, func(r register.Result) { result = &r })
		session.Submit(&write, deadline)
		synctest.Wait()
		fence := store.take()
		if len(fence) != 1 || fence[0].op.Kind != register.Fence {
			t.Fatalf("the write waits for a fence; submitted: %v", fence)
		}
		session.Close()
		fence[0].done(register.Result{Status: register.OK})
		synctest.Wait()
		if late := store.take(); len(late) > 0 {
			t.Errorf("submitted after the session was closed, with %d dependencies: %v",
				len(late[0].op.After), late[0].op)
		}
		if result == nil || result.Status != register.Unavailable {
			t.Errorf("the write ended with %v; nobody has heard of it", result)
		}
	})
}
