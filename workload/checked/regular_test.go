package checked

import (
	"errors"
	"testing"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/client/regulartest"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// Two clients, one of which meets a write under way: what a session carries and fences is what makes the history right.
func TestHistoriesOfSessionsAreJudged(t *testing.T) {
	for _, test := range []struct {
		name         string
		fence        bool // of the session
		recorded     bool
		linearizable bool
		regular      bool
	}{
		{"no fence", false, false, false, true},
		{"a fence", true, true, true, true},
		{"a fence that was none", false, true, false, false},
	} {
		cluster := &regulartest.Cluster{}
		first, second, stop, err := cluster.Serve()
		if err != nil {
			t.Fatal(err)
		}
		recorder := history.NewRecorder(nil)
		recorder.Invoke("writer", "", register.Operation{Kind: register.Write, Key: "k", Value: register.Value("x")})
		finish := cluster.Begin("k", register.Value("x"))
		read := func(name, address string) workload.Doer {
			connected, err := client.Dial(t.Context(), client.Options{Endpoints: []client.Endpoint{{Address: address}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = connected.Close() })
			op := register.Operation{Kind: register.Read, Key: "k"}
			i, doer := recorder.Invoke(name, "", op), Doer(connected.Session)
			i.Return(doer.Do(t.Context(), op))
			return doer
		}
		a := read("a", first)
		end := recorder.Fence("a")
		if test.fence {
			if r := a.Do(t.Context(), register.Operation{Kind: register.Fence}); r.Status != register.OK {
				t.Fatal(r)
			}
		}
		if test.recorded {
			end()
		}
		read("b", second)
		finish()
		stop()
		for model, want := range map[string]bool{"linearizable": test.linearizable, "rsc": test.regular} {
			report := workload.NewReport()
			err := judgeRSC(t.Context(), recorder.Record(), report)
			if model == "linearizable" {
				err = Judge(t.Context(), "Gryff", recorder.Record(), report)
			}
			if (err == nil) != want || !want && (!errors.Is(err, ErrViolation) || report.Verdict != history.Violation) {
				t.Errorf("%s: by %s it is %s: %v", test.name, model, report.Verdict, err)
			}
		}
	}
}

func TestLinearizableProtocolsNeedNoFences(t *testing.T) {
	for _, protocol := range []string{"ABD", "CURP", "EPaxos", "Gryff", "Raft", "Paxos"} {
		if Regular(protocol) || FenceEvery(protocol) != 0 {
			t.Errorf("%s is regular", protocol)
		}
	}
}

func TestRegularProtocolsAreJudgedAsThat(t *testing.T) {
	if !Regular("GryffRSC") || FenceEvery("gryffrsc") == 0 {
		t.Fatal("GryffRSC is not regular")
	}
	recorder := history.NewRecorder(nil)
	op := register.Operation{Kind: register.Read, Key: "k"}
	recorder.Invoke("a", "", op).Return(register.Result{Status: register.OK})
	report := workload.NewReport()
	err := Judge(t.Context(), "GryffRSC", recorder.Record(), report)
	if err != nil || report.Verdict != history.RegularSequential {
		t.Errorf("the verdict is %s: %v", report.Verdict, err)
	}
}
