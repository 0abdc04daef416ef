package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/members"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

func TestALostQuorumThatIsGivenUpTooSoonIsFound(t *testing.T) {
	t.Parallel()
	mutant := "membership/forsake-witnesses"
	mutants.Build(t).Run(t, mutant, mutant, func(t *testing.T) { mustFind(t, directed.LostQuorums, nil, 0, 500, found("")) })
}

// A quorum is lost in each schedule, and whatever somebody holds who is left goes on.
func TestCURPSurvivesLostQuorums(t *testing.T) {
	t.Parallel()
	took := takesAll(t, directed.LostQuorums, lostQuorumPaths())
	t.Logf("%d quorums were lost, %d given up; partitions: %d whole, %d shortened, %d behind, %d empty", took["curp.quorum-lost"], took["curp.rescued"],
		took["curp.rescued.whole"], took["curp.rescued.shortened"], took["curp.rescued.behind"], took["curp.rescued.empty"])
}

// Of a partition that something was lost of, whatever began before that may have had an effect or not. What begins
// later has to fit.
func TestWhatIsSeenAfterALostQuorumIsJudged(t *testing.T) {
	t.Parallel()
	m := &members.QuorumLoss{Happened: true, GivenUp: true, At: 10, Incomplete: map[int]bool{0: true}}
	m.Whole.Partitions = make([]view.Partition, 1)
	at := time.Duration(0)
	write := func(value string) history.Operation {
		at += 2
		return history.Operation{Invoked: at, Returned: at + 1, Result: register.Result{Status: register.OK},
			Request: register.Operation{Kind: register.Write, Key: "k", Value: register.Value(value)}}
	}
	read := func(value string) history.Operation {
		o := write(value)
		o.Request.Kind, o.Request.Value, o.Result.Value = register.Read, nil, register.Value(value)
		return o
	}
	before := []history.Operation{write("1"), read("1"), write("2"), read("2")}
	for _, tt := range []struct {
		later []history.Operation
		want  history.Outcome
	}{
		{[]history.Operation{read("1")}, history.Linearizable}, // the last write is lost
		{[]history.Operation{read("2"), write("3"), read("3")}, history.Linearizable},
		{[]history.Operation{read("0")}, history.Violation},
		{[]history.Operation{write("3"), write("4"), read("3")}, history.Violation},
	} {
		if got := history.Check(t.Context(), m.Since(slices.Concat(before, tt.later)), history.Options{Timeout: time.Minute}).Outcome; got != tt.want {
			t.Errorf("%v: %v, want %v", tt.later, got, tt.want)
		}
	}
	if ops := slices.Concat(before, []history.Operation{read("0")}); len(m.OfWholePartitions(ops)) > 0 {
		t.Error("a partition that something was lost of is judged like the others")
	}
}
