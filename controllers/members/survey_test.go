package members

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Who let a question go without an answer is asked again, once at a time, and nobody waits for it until it has
// answered.
func TestNobodyWaitsForTheMuteTwice(t *testing.T) {
	m := links[net.Conn]{dial: func(Target) (net.Conn, error) { c, _ := net.Pipe(); return c, nil }}
	released, questions := make(chan struct{}), make(chan struct{}, 10)
	look := func(mute func(context.Context) (int, error)) []Reply[int] {
		t.Helper()
		done := make(chan []Reply[int], 1)
		go func() {
			done <- survey(t.Context(), &m, resource, []Target{{Address: "mute"}, {Address: "well"}},
				func(ctx context.Context, _ net.Conn, target Target) (int, error) {
					if target.Address == "well" {
						return 1, nil
					}
					questions <- struct{}{}
					return mute(ctx)
				})
		}()
		select {
		case answers := <-done:
			if answers[1].Err != nil || answers[1].Report != 1 {
				t.Errorf("the other one: %+v", answers[1])
			}
			return answers
		case <-time.After(bound):
			t.Fatal("it waits for the mute one")
		}
		return nil
	}
	untilLate := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	held := func(context.Context) (int, error) { <-released; return 2, nil }
	if got := look(untilLate)[0]; status.Code(got.Err) != codes.DeadlineExceeded {
		t.Errorf("the first time: %+v", got)
	}
	for range 3 { // the first of these sends a question, and it is out
		if got := look(held)[0]; status.Code(got.Err) != codes.DeadlineExceeded {
			t.Errorf("while it is mute: %+v", got)
		}
	}
	eventually(t, "it is asked again", func() bool { return len(questions) >= 2 })
	close(released)
	mute := m.get(resource, Target{Address: "mute"})
	eventually(t, "it answers", func() bool { return !mute.mute.Load() && !mute.out.Load() })
	if len(questions) != 2 {
		t.Errorf("%d questions were sent, want 2: one while another one is out is one too many", len(questions))
	}
	if got := look(held)[0]; got.Err != nil || got.Report != 2 {
		t.Errorf("once it has answered: %+v", got)
	}
	look(untilLate)
	m.keep(resource, nil)
	if len(m.of) != 0 {
		t.Errorf("a cluster that is forgotten is remembered: %v", m.of)
	}
}
