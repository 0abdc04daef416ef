package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/caspaxos"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// Sessions of several clients are forgotten for others, and come back with what one client has in progress while another
// one still tries what was executed before.

func TestSessionsThatComeBackAreNotTrusted(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, c := range []struct {
		name, mutant string
		draw         func(uint64) schedule.Schedule
		start        Start
	}{
		{"CASPaxos", "session/trust-known-sessions", directed.SessionsBack, Member(caspaxos.Factory)},
		{"EPaxos", "session/trust-known-sessions", directed.SessionsBack, Member(epaxos.Factory)},
		{"CURP", "store/trust-known-sessions", directed.SessionsBackAtMasters, nil},
	} {
		program.Run(t, c.name, c.mutant, func(t *testing.T) { mustFind(t, c.draw, c.start, 0, 2000, harm) })
	}
}

// The first request in progress of a session may come after later ones, and is executed then. If a client is told that
// its outcome is not kept, nothing is lost; but no state says that it was forgotten.
func TestRequestsOutOfOrderAreExecuted(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, c := range []struct {
		name string
		draw func(uint64) schedule.Schedule
	}{
		{"all are remembered", directed.SessionsOutOfOrder}, {"few are remembered", directed.SessionsBack},
	} {
		program.Run(t, c.name, "session/take-first-for-over", func(t *testing.T) {
			mustFind(t, c.draw, Member(caspaxos.Factory), 0, 100, found(check.Breach))
		})
	}
}
