package script

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// submission is an operation of a script, as its client knows it.
type submission struct {
	operation register.Operation
	client    string
	ended     func(register.Result) // notes its end in the history
	returned  *register.Dependency  // a read's: the register as it was returned
}

// sessions are the clients of a script, what each of them depends on, and what all of them saw.
type sessions struct {
	pasts    map[string]*register.Past
	recorder *history.Recorder
	messages []history.Message
}

// newSessions has no clients yet. The history's clock counts what is noted in it.
func newSessions() sessions {
	return sessions{
		pasts: map[string]*register.Past{}, recorder: history.NewRecorder(func() time.Duration { return 0 }),
	}
}

// begin notes that a client submits an operation at a member. What comes of it is noted when it ends; a crash of the
// member ends nothing.
func (s *sessions) begin(client, site string, op register.Operation) submission {
	if op.Kind == register.Fence {
		end := s.recorder.Fence(client)
		return submission{operation: op, client: client, ended: func(r register.Result) {
			if r.Status == register.OK {
				end()
			}
		}}
	}
	i := s.recorder.Invoke(client, site, op)
	return submission{operation: op, client: client, ended: func(r register.Result) { i.Return(r) }}
}

// past is what a client depends on. Clients begin with nothing.
func (s *sessions) past(client string) *register.Past {
	if s.pasts[client] == nil {
		s.pasts[client] = &register.Past{}
	}
	return s.pasts[client]
}

// tell has one client tell another one of everything that it knows.
func (s *sessions) tell(from, to string) {
	sent := s.recorder.Stamp()
	s.past(to).Join(s.past(from))
	s.messages = append(s.messages, history.Message{From: from, Sent: sent, To: to, Received: s.recorder.Stamp()})
}

// told has one client hear of what an operation of another one returned.
func (s *sessions) told(from, to string, d register.Dependency) {
	sent := s.recorder.Stamp()
	s.past(to).Learn(&register.Operation{Key: d.Key}, register.Result{
		Status: register.OK, Carstamp: d.Carstamp, Value: d.Value, Depends: true,
	})
	s.messages = append(s.messages, history.Message{From: from, Sent: sent, To: to, Received: s.recorder.Stamp()})
}

// judge decides whether the clients saw a regular sequential store.
func (s *sessions) judge(t *testing.T) (history.RSCVerdict, error) {
	record := s.recorder.Record()
	return history.CheckRSC(t.Context(), record.Operations,
		history.RSCOptions{Messages: s.messages, Fences: record.Fences})
}

// attach has an operation come after what its client depends on.
func (s *sessions) attach(client string, op *register.Operation) {
	regular := op.Regular
	s.past(client).Attach(op)
	op.Regular = op.Regular && regular
}

// tell is the command.
func (w *world) tell(d *datadriven.TestData) error {
	if len(d.CmdArgs) != 2 {
		return fmt.Errorf("tell takes two clients")
	}
	from, to := d.CmdArgs[0].Key, d.CmdArgs[1].Key
	w.sessions.tell(from, to)
	w.printf("%s tells %s", from, to)
	return nil
}

// judge is the command.
func (w *world) judge(*datadriven.TestData) error {
	v, err := w.sessions.judge(w.t)
	if err != nil {
		return err
	}
	w.printf("%d operations: %s", v.Operations, v.Outcome)
	for _, e := range v.Cycle {
		w.printf("%s %s: comes first, %s", e.From.Client, describeOperation(e.From.Request), e.Why)
	}
	return nil
}

// ended notes the end of an operation, for its client and for those that come after it.
func (w *world) ended(c protocol.Completion) {
	s := &w.operations[c.Handle-1]
	if s.ended == nil {
		return
	}
	s.ended(c.Result)
	s.ended = nil
	w.sessions.past(s.client).Learn(&s.operation, c.Result)
	if c.Result.Status == register.OK && !c.Result.Carstamp.IsZero() && s.operation.Kind == register.Read {
		s.returned = &register.Dependency{
			Key: s.operation.Key, Versioned: register.Versioned{Carstamp: c.Result.Carstamp, Value: c.Result.Value},
			Holders: c.Result.Holders,
		}
	}
}
