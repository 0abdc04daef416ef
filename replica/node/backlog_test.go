package node

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
)

func TestHoldingIsBoundedAndEnds(t *testing.T) {
	h := &backlog{}
	answers := make(chan register.Result, 1)
	add := func() bool {
		return h.add(register.Operation{Kind: register.Read, Key: "k"}, 0, func(r register.Result) { answers <- r })
	}
	for range maxBacklog {
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
	if n := len(h.release()); n != maxBacklog {
		t.Errorf("%d were held, want %d", n, maxBacklog)
	}
	if add() || len(answers) > 0 {
		t.Error("it holds more after its release")
	}
}

// What was under way goes on before anything that comes in later begins: an rmw would lose its instance to a newer one.
func TestOperationsGoOnBeforeLaterOnesBegin(t *testing.T) {
	all := newCast(t, "Gryff", storage.Memory, 3)
	v := all.found(t, 1, 2, 3)
	all.quorum(t, v)
	var clients, answers sync.WaitGroup
	// They don't wait for answers, or nobody would be left to come in at the wrong moment.
	room := make(chan struct{}, 4096)
	over := make(chan struct{})
	for range 2 {
		clients.Go(func() {
			pace := time.NewTicker(50 * time.Microsecond)
			defer pace.Stop()
			for {
				select {
				case <-over:
					return
				case <-pace.C:
				}
				room <- struct{}{}
				answers.Add(1)
				call := register.Call{Function: register.GetAndSet, Args: [][]byte{[]byte("v")}}
				all[1].node.Submit(register.Operation{Kind: register.RMW, Key: "k", Call: call}, patience,
					func(r register.Result) {
						if r.Status != register.OK {
							t.Errorf("an rmw ended as %s: %s", r.Status, r.Message)
						}
						<-room
						answers.Done()
					})
			}
		})
	}
	for range 10 {
		v.Epoch++
		all.tell(t, v, 1, 2, 3)
		all.quorum(t, v)
	}
	close(over)
	clients.Wait()
	answers.Wait()
}
