package simulator

import (
	"encoding/binary"
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// toy is a protocol simple enough to be seen to be right, for tests of the simulator itself: member 1 executes
// every operation on its own disk, and the others ask it. It survives crashes and every fault of the network,
// but not lost disks.
type toy struct {
	config  protocol.Config
	journal *protocol.Journal
	wrong   toyMistakes
	now     protocol.Instant
	last    uint64
	true    protocol.Interval
	waiting []*toyWait
	asking  *peerv1.Message // of toyMistakes.keepAsking
	effects protocol.Effects
}

// toyMistakes make the toy wrong, each in a way that the simulator must find.
type toyMistakes struct {
	answerEarly  bool // member 1 answers before its disk has what it answers
	readLocally  bool // the others answer reads with what they wrote themselves
	forgetCalls  bool // an rmw that is asked for twice is executed twice
	neverRetry   bool // what is lost is not sent again
	deaf         bool // member 1 serves nobody once it has been restarted
	completeMore bool // an operation completes twice
	touchSent    bool // a message is changed after it was sent
	leak         bool // the toy counts operations as pending that are over
	retryLate    bool // what is lost is sent again only after a long time
	keepAsking   bool // what was sent again is sent again for ever
	echo         bool // each answer is asked for twice more
	performAll   bool // what is no operation is performed
}

type toyWait struct {
	number  uint64
	request protocol.Request
	asked   protocol.Instant
	sent    *peerv1.Message
}

var _ protocol.Timed = (*toy)(nil)

// TrueTime fails the member if the bounds are none, or go back, which the true time never does.
func (t *toy) TrueTime(now protocol.Interval) {
	if first := t.true == (protocol.Interval{}); now.Earliest >= now.Latest || !first && now.Earliest < t.true.Earliest {
		t.effects.Fault = fmt.Errorf("the true time is %+v, after %+v", now, t.true)
	}
	t.true = now
}

func startToy(wrong toyMistakes) Start {
	return func(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
		return &toy{config: config, journal: journal, wrong: wrong, last: uint64(config.Boot) << 32}, nil
	}
}

func (t *toy) Submit(r protocol.Request) {
	if err := base.CheckOperation(t.config.Functions, r.Operation); err != nil && !t.wrong.performAll {
		refusal := register.Result{Status: register.Invalid, Message: err.Error()}
		t.effects.Complete = append(t.effects.Complete, protocol.Completion{Handle: r.Handle, Result: refusal})
		return
	}
	if r.Operation.Kind == register.RMW && r.Operation.ID.Session == 0 { // what is asked again must be recognised
		t.last++
		r.Operation.ID = register.ID{Session: uint64(t.config.Self)<<32 | uint64(t.config.Boot), Number: t.last}
	}
	if t.config.Self == 1 {
		if r.Operation.Kind == register.Read && t.true != (protocol.Interval{}) { // a part that is not the result
			t.effects.Complete = append(t.effects.Complete, protocol.Completion{
				Handle: r.Handle, Result: register.Result{Status: register.OK, Value: register.Value("part"), More: true},
			})
		}
		result := t.execute(r.Operation)
		result.RoundTrips = 1 // it asks nobody, as no protocol does whose updates rest on a quorum
		t.finish(protocol.Completion{Handle: r.Handle, Result: result})
		return
	}
	op := r.Operation
	if value, ok := t.get(toyKey('l', op.Key)); ok && t.wrong.readLocally && op.Kind == register.Read {
		t.effects.Complete = append(t.effects.Complete, protocol.Completion{Handle: r.Handle, Result: register.Result{Status: register.OK, Value: value}})
		return
	}
	t.last++
	w := &toyWait{number: t.last, request: r}
	t.waiting = append(t.waiting, w)
	t.ask(w)
}

// ask sends the operation to member 1: its kind in Timestamp, an rmw as an instance's command.
func (t *toy) ask(w *toyWait) {
	op := w.request.Operation
	m := &peerv1.Message{Kind: peerv1.Kind_PRE_ACCEPT, Op: w.number, Key: []byte(op.Key), Timestamp: uint64(op.Kind)}
	m.Present, m.Value = op.Value.Present(), op.Value
	if op.Kind == register.RMW {
		m.Instance = &peerv1.Instance{Commands: []*peerv1.Command{{
			Function: op.Call.Function, Args: op.Call.Args, Session: op.ID.Session, Number: op.ID.Number,
			MaxValueBytes: uint64(op.Call.MaxValueBytes),
		}}}
	}
	w.asked, w.sent = t.now, m
	t.effects.Send = append(t.effects.Send, protocol.Envelope{To: 1, Message: m})
}

func (t *toy) Receive(from view.MemberID, m *peerv1.Message) {
	if t.wrong.deaf && t.config.Boot > 1 {
		return
	}
	if m.Kind == peerv1.Kind_PRE_ACCEPT {
		t.serve(from, m)
		return
	}
	if t.wrong.echo {
		again := protocol.Envelope{To: 1, Message: &peerv1.Message{Kind: peerv1.Kind_PRE_ACCEPT, Op: m.Op, Timestamp: uint64(register.Read)}}
		t.effects.Send = append(t.effects.Send, again, again)
	}
	for i, w := range t.waiting {
		if w.number != m.Op {
			continue
		}
		t.waiting = append(t.waiting[:i:i], t.waiting[i+1:]...)
		result := register.Result{Status: register.Status(m.Timestamp), Message: "refused", RoundTrips: 1}
		if result.Value = m.Value; m.Present && m.Value == nil {
			result.Value = register.Value{}
		}
		if w.request.Operation.Kind == register.Write {
			t.journal.Put(toyKey('l', w.request.Operation.Key), w.request.Operation.Value)
		}
		if t.wrong.touchSent {
			w.sent.Op++
		}
		t.finish(protocol.Completion{Handle: w.request.Handle, Result: result})
		return
	}
}

// serve executes another member's operation once: a write or rmw asked for again gets its first answer.
func (t *toy) serve(from view.MemberID, m *peerv1.Message) {
	seen := binary.BigEndian.AppendUint64([]byte{'s', byte(from)}, m.Op)
	reply := &peerv1.Message{}
	if raw, ok := t.get(seen); ok {
		if err := reply.UnmarshalVT(raw); err != nil {
			t.effects.Fault = err
			return
		}
	} else {
		op := register.Operation{Kind: register.Kind(m.Timestamp), Key: string(m.Key)}
		if m.Present {
			op.Value = append(register.Value{}, m.Value...)
		}
		if m.Instance != nil {
			c := m.Instance.Commands[0]
			op.Call = register.Call{Function: c.Function, Args: c.Args, MaxValueBytes: int(c.MaxValueBytes)}
			op.ID = register.ID{Session: c.Session, Number: c.Number}
		}
		result := t.execute(op)
		reply.Kind, reply.Op, reply.Timestamp = peerv1.Kind_EXECUTED, m.Op, uint64(result.Status)
		reply.Present, reply.Value = result.Value.Present(), result.Value
		raw, err := reply.MarshalVT()
		if err != nil {
			t.effects.Fault = err
			return
		}
		t.journal.Put(seen, raw)
	}
	if e := (protocol.Envelope{To: from, Message: reply}); t.wrong.answerEarly {
		t.effects.Send = append(t.effects.Send, e)
	} else {
		t.effects.SendAfterPersist = append(t.effects.SendAfterPersist, e)
	}
}

// get reads a record. None begins with a byte that is no tag of a message, nor of what clients write.
func (t *toy) get(key []byte) ([]byte, bool) {
	raw, ok := t.journal.Get(key)
	if len(raw) > 0 && raw[0] == 0xff {
		t.effects.Fault = fmt.Errorf("record %q is damaged", key)
	}
	return raw, ok
}

// execute is member 1's.
func (t *toy) execute(op register.Operation) register.Result {
	t.config.Took("execute")
	key := toyKey('k', op.Key)
	var current register.Value
	if raw, ok := t.get(key); ok {
		current = raw
	}
	switch op.Kind {
	case register.Write:
		t.set(key, op.Value)
		return register.Result{Status: register.OK}
	case register.RMW:
		return t.call(key, current, op)
	}
	return register.Result{Status: register.OK, Value: current}
}

func (t *toy) call(key []byte, current register.Value, op register.Operation) register.Result {
	session := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{'d'}, op.ID.Session), op.ID.Number)
	if raw, ok := t.get(session); ok && !t.wrong.forgetCalls {
		result := register.Result{Status: register.Status(raw[0]), Message: "refused"}
		if raw[1] == 1 {
			result.Value = register.Value(raw[2:])
		}
		return result
	}
	out, err := t.config.Functions.Apply(current, op.Call)
	if err != nil {
		t.effects.Fault = err
		return register.Result{}
	}
	result := register.Result{Status: register.OK, Value: out.Reply}
	if out.Refused != "" {
		result = register.Result{Status: register.Failed, Message: out.Refused}
	} else if out.Changed {
		t.set(key, out.Next)
	}
	present := byte(0)
	if result.Value.Present() {
		present = 1
	}
	t.journal.Put(session, append([]byte{byte(result.Status), present}, result.Value...))
	return result
}

func (t *toy) set(key []byte, v register.Value) {
	if v.Present() {
		t.journal.Put(key, v)
	} else {
		t.journal.Delete(key)
	}
}

func (t *toy) finish(c protocol.Completion) {
	if t.wrong.answerEarly {
		t.effects.Complete = append(t.effects.Complete, c)
		return
	}
	t.effects.CompleteAfterPersist = append(t.effects.CompleteAfterPersist, c)
	if t.wrong.completeMore {
		t.effects.CompleteAfterPersist = append(t.effects.CompleteAfterPersist, c)
	}
}

func (t *toy) Tick(now protocol.Instant) {
	t.now = now
	if t.wrong.keepAsking && t.asking != nil {
		t.effects.Send = append(t.effects.Send, protocol.Envelope{To: 1, Message: t.asking.CloneVT()})
	}
	for _, w := range t.waiting {
		retry := t.config.Retry
		if t.wrong.retryLate {
			retry *= 12
		}
		if !t.wrong.neverRetry && now.Sub(w.asked) >= retry {
			t.config.Took("retry")
			t.ask(w)
			t.asking = w.sent.CloneVT()
		}
	}
}

// Doubted implements protocol.Protocol: no disk is ever put back.
func (t *toy) Doubted() bool { return false }

// Pace implements protocol.Machine: the simulator's worlds tell it once.
func (t *toy) Pace(_, _ time.Duration) {}

// Unfinished implements protocol.Machine: the view does not change.
func (t *toy) Unfinished() []protocol.Request { return nil }

// Pending is how many operations wait.
func (t *toy) Pending() int {
	if t.wrong.leak {
		return len(t.waiting) + 1
	}
	return len(t.waiting)
}

func (t *toy) Ready() protocol.Effects {
	e := t.effects
	t.effects = protocol.Effects{}
	e.Persist = t.journal.Take()
	return e
}

func toyKey(space byte, key string) []byte { return append([]byte{space}, key...) }
