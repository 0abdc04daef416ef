package members

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness"
)

// startWitness runs a witness until the test ends, and tells where.
func startWitness(t *testing.T, self uint32) Target {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	at, done := make(chan net.Addr, 1), make(chan error, 1)
	config := witness.Config{Cluster: "demo.1", Self: self, Directory: t.TempDir(), Durability: witness.Sync, Slots: 64,
		Listen: witness.Listen{Peer: "127.0.0.1:0"}}
	go func() {
		done <- witness.Run(ctx, config, witness.Options{Listening: func(peer net.Addr) { at <- peer }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return Target{ID: view.MemberID(self), ClusterID: "demo.1", Address: (<-at).String()}
}

func TestWitnessesAreAskedAndTold(t *testing.T) {
	c := NewClient()
	defer c.Close()
	first, second := startWitness(t, 2), startWitness(t, 4)
	absent := Target{ID: 6, ClusterID: "demo.1", Address: "127.0.0.1:1"}
	targets := []Target{first, absent, second}
	ask := func() []WitnessAnswer {
		t.Helper()
		answers := c.AskWitnesses(t.Context(), "a/b", targets)
		if answers[1].Err == nil || answers[1].Report != nil {
			t.Errorf("nobody is there: %+v", answers[1])
		}
		for i := range answers {
			if i != 1 &&
				(answers[i].Err != nil || answers[i].Report.Witness != targets[i].ID || answers[i].Report.Disk == "") {
				t.Fatalf("witness %d: %+v", targets[i].ID, answers[i])
			}
		}
		return answers
	}
	answers := ask()
	v := view.View{Witnesses: []view.Witness{{ID: 2, Disk: answers[0].Report.Disk}, {ID: 4, Disk: "another"}}}
	life := func(id view.MemberID, term uint64) membership.Life {
		return membership.Life{Witness: id, Partition: 1, Term: term}
	}

	err := c.Live(t.Context(), "a/b", targets[2:], v, []membership.Life{life(4, 3)}, nil)
	if err == nil || !strings.Contains(err.Error(), "witness 4") {
		t.Errorf("a life on another disk: %v", err)
	}
	for range 2 { // to repeat it does no harm
		if err := c.Live(t.Context(), "a/b", targets, v, []membership.Life{life(2, 3), life(2, 4)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask()[0].Report.Lives; !slices.Equal(got, []membership.Life{life(2, 3), life(2, 4)}) {
		t.Errorf("begun: %v", got)
	}
	if err := c.Live(t.Context(), "a/b", targets[:1], v, nil, []membership.Life{life(2, 3)}); err != nil {
		t.Fatal(err)
	}
	if got := ask()[0].Report.Lives; !slices.Equal(got, []membership.Life{life(2, 4)}) {
		t.Errorf("ended: %v", got)
	}

	c.AskWitnesses(t.Context(), "a/b", targets[2:])
	if n := len(c.witnesses.of["a/b"]); n != 1 {
		t.Errorf("%d connections are open, want one", n)
	}
	if c.Forget("a/b"); len(c.witnesses.of) != 0 {
		t.Errorf("open after all was forgotten: %v", c.witnesses.of)
	}
}
