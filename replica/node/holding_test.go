package node

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/register"
)

func TestHoldingIsBoundedAndEnds(t *testing.T) {
	h := &holding{}
	answers := make(chan register.Result, 1)
	add := func() bool {
		return h.add(register.Operation{Kind: register.Read, Key: "k"}, 0, func(r register.Result) { answers <- r })
	}
	for range maxHeld {
		if !add() {
			t.Fatal("it is released before it was")
		}
	}
	if len(answers) > 0 || !add() {
		t.Fatal("an operation is not held")
	}
	if r := <-answers; r.Status != register.Unavailable || !strings.Contains(r.Message, "too many operations wait") {
		t.Errorf("one too many is answered %s: %s", r.Status, r.Message)
	}
	if n := len(h.release()); n != maxHeld {
		t.Errorf("%d were held, want %d", n, maxHeld)
	}
	if add() || len(answers) > 0 {
		t.Error("it holds more after its release")
	}
}
