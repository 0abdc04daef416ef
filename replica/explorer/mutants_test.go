package explorer_test

import (
	"os"
	"testing"

	"github.com/georegister/georegister/replica/explorer"
	"github.com/georegister/georegister/test/mutants"
)

func TestMain(m *testing.M) { os.Exit(mutants.Main(m)) }

// Known mistakes are found in small scopes: of each protocol some, which take a second or two.
func TestMutantsAreFoundInScopes(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the package anew, and explores 21 scopes; TestScopesAreRight runs the same code")
	}
	program := mutants.Build(t)
	for _, c := range []struct {
		mutant, protocol, operations, faults string
		deviations                           int // the most; -1: every order
	}{
		{"abd/ack-before-persist", "abd", "write; read, read", "crash", -1},
		{"abd/complete-before-persist", "abd", "write; read; read", "crash,timeout", 3},
		{"abd/keep-holders", "abd", "write; read; read", "crash,timeout", 3},
		{"abd/reread-value", "abd", "write; read; read", "crash,timeout", 3},
		{"abd/skip-write-back", "abd", "write; read, read", "crash", -1},
		{"base/send-before-persist", "abd", "write; read, read", "crash", -1},
		{"base/ack-before-persist", "caspaxos", "rmw; rmw", "crash,timeout", 2},
		{"caspaxos/ignore-accepted", "caspaxos", "rmw; rmw", "none", -1},
		{"curp/answer-before-persist", "curp", "write; read", "crash", 2},
		{"curp/gc-before-sync", "curp", "write; read", "takeover", 1},
		{"curp/read-unsynced", "curp", "write; read", "crash", 2},
		{"curp/skip-replay", "curp", "write; read", "takeover", 1},
		{"gryff/answer-before-persist", "gryff", "rmw; write, read", "crash,timeout", 2},
		{"gus/ack-before-persist", "gus", "write; read, read", "crash", 3},
		{"gus/commit-without-value", "gus", "write; write, read", "timeout", 1},
		{"instance/answer-on-commit", "epaxos", "rmw; rmw", "none", -1},
		{"instance/forget-previous", "epaxos", "rmw; rmw", "none", -1},
		{"instance/order-by-self", "epaxos", "rmw; rmw", "crash,takeover", 2},
		{"rmwpaxos/ignore-highest", "rmwpaxos", "rmw; read, read", "timeout", 1},
	} {
		program.Run(t, c.mutant, c.mutant, func(t *testing.T) {
			s := scope(t, c.protocol, c.operations, c.faults)
			r := explore(t, s, explorer.Options{Ordered: c.deviations >= 0, Deviations: c.deviations})
			if r.Failure == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Logf("%v, after %d states", r.Failure, r.States)
		})
	}
	for mutant, operations := range map[string]string{ // order is irrelevant: each is a test
		"instance/recover-by-majority": "rmw; rmw", "instance/recover-one-vote": "rmw; 4: rmw",
	} {
		program.Run(t, mutant, mutant, func(t *testing.T) {
			r := explore(t, fiveOfWhomOne(t, operations, "takeover"), explorer.Options{Ordered: true, Deviations: 3})
			if r.Failure == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Logf("%v, after %d states", r.Failure, r.States)
		})
	}
}
