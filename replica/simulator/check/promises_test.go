package check

import (
	"slices"
	"testing"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/core"
)

// What a witness answers is judged as it leaves: how many promises it tells of, which lives, and why it refuses.
func TestAnswersOfAWitness(t *testing.T) {
	made, err := core.New(core.Config{Slots: 64, Disk: "disk"})
	if err != nil {
		t.Fatal(err)
	}
	w := &Witness{disk: "disk"}
	ask := func(from uint32, m *witnessv1.Message) core.Effects {
		m.Partition, m.Term, m.Disk = 1, 2, "disk"
		made.Receive(from, m)
		return made.Ready()
	}
	answer := func(e core.Effects) *witnessv1.Message { return slices.Concat(e.Send, e.After)[0].Message }
	holds := func(err error, want bool, what string) {
		if (err == nil) != want {
			t.Errorf("%s: %v", what, err)
		}
	}

	started := answer(ask(core.Manager, &witnessv1.Message{Kind: witnessv1.Kind_START}))
	started.Accepted = false
	holds(refusesWell(started, &asked{}), false, "a refusal without a reason")
	started.Refused = "it is there"
	holds(refusesWell(started, &asked{serves: true}), false, "a life that has begun is refused")
	holds(refusesWell(started, &asked{}), true, "a life that may have ended is refused")

	saved := ask(3, &witnessv1.Message{Kind: witnessv1.Kind_RECORD, Hashes: []uint64{1}, Id: &witnessv1.ID{Session: 1}})
	holds(w.Promises(&saved, made), true, "a promise is told")
	answer(saved).Promises--
	holds(w.Promises(&saved, made), false, "a promise is not told")

	lives := answer(ask(core.Manager, &witnessv1.Message{Kind: witnessv1.Kind_LIVES}))
	holds(w.Tells(lives, made), true, "all lives are told")
	lives.Lives[0].Term++
	holds(w.Tells(lives, made), false, "another life is told")

	w.durable = made
	holds(w.Rests(made, 2), true, "all is on disk")
	if w.durable, err = core.New(core.Config{Slots: 64, Disk: "disk"}); err != nil {
		t.Fatal(err)
	}
	holds(w.Rests(made, 2), false, "nothing is on disk")
}
