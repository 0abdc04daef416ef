package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/caspaxos"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// Answers that come after their question was asked again, and perhaps another one: what they say of another write, or
// how long they take, matters where round trips are longer than members wait.
func TestAnswersToEarlierQuestionsMatter(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) schedule.Schedule {
		return directed.AskedAgain(seed, schedule.Options{RMWs: schedule.FewRMWs})
	}
	program := mutants.Build(t)
	for _, late := range []struct {
		mutant string
		start  Start
		seeds  int
		counts func(check.Class) bool
	}{
		{"gus/answer-of-another-write", Member(gus.Factory), 4000, nil},
		{"gus/duel-on", Member(gus.Factory), 4000, endless},
		{"base/duel-on", Member(caspaxos.Factory), 1000, endless},
	} {
		program.Run(t, late.mutant, late.mutant, func(t *testing.T) {
			mustFind(t, draw, late.start, 0, late.seeds, late.counts)
		})
	}
}
