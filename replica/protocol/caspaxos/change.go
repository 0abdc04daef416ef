package caspaxos

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// keptAnswer bounds the answer, in bytes, that a state keeps of a member's last change. Of a longer one only the fact
// is kept.
const keptAnswer = 16 << 10

// change is the change function of the paper: it returns the state after an operation, and what that answers. done says
// that the state has the operation in it already, or its client's earlier attempt, and does not change. The answer is
// nil if no carstamp is left.
func (p *Protocol) change(base state, o *operation) (next state, answer *peerv1.Answer, done bool) {
	table := &peerv1.KeyState{}
	if err := table.UnmarshalVT(base.table); err != nil {
		p.Fault("the table of key %q is damaged: %w", o.key, err)
		return base, answerOf(&base, nil), true
	}
	if answer = p.recall(table, o); answer != nil {
		p.Took(pathAlreadyIn)
		return base, answer, true
	}
	command := commandOf(o.Operation)
	if o.Operation.Kind == register.RMW && !p.mistakes.ForgetSessions {
		if answer = session.Recall(table, command); answer != nil {
			p.Took(pathDuplicate)
			return base, answer, true
		}
	}
	if base.carstamp.Timestamp >= register.MaxNumber {
		return base, nil, false
	}
	next = base
	next.carstamp = register.Carstamp{Timestamp: base.carstamp.Timestamp + 1, Writer: p.author}
	if o.Operation.Kind == register.Write {
		next.value = o.Operation.Value
		answer = answerOf(&next, nil)
	} else {
		out, err := p.Config.Functions.Apply(base.value, o.Operation.Call)
		if err != nil {
			out.Refused = err.Error()
		}
		if out.Refused == "" && out.Changed {
			next.value = out.Next
		}
		answer = answerOf(&next, out.Reply)
		answer.Refused = out.Refused
		session.Remember(table, command, answer)
	}
	p.remember(table, o, answer)
	encoded, err := table.MarshalVT()
	if err != nil {
		p.Fault("encode the table of key %q: %w", o.key, err)
	}
	next.table = encoded
	return next, answer, false
}

// recall returns what an operation has answered, if the state has it in it. There is one entry for each member, of the
// last change of its last disk: each member changes a key by one operation after the other, so an older one is over.
func (p *Protocol) recall(table *peerv1.KeyState, o *operation) *peerv1.Answer {
	at, found := entry(table, p.author)
	if !found || p.mistakes.ForgetChanges {
		return nil
	}
	last := table.Executed[at]
	switch later := cmp.Or(
		cmp.Compare(register.Writer(last.GetId().GetWriter()).Incarnation(), p.author.Incarnation()), cmp.Compare(last.GetId().GetNumber(), o.number),
	); {
	case later < 0:
		return nil
	case later > 0 || len(last.Answers) == 0:
		return session.Forgotten
	}
	return last.Answers[0]
}

// remember makes an operation its author's last one in the table, and forgets members that are no more.
func (p *Protocol) remember(table *peerv1.KeyState, o *operation, answer *peerv1.Answer) {
	if len(answer.Value) > keptAnswer {
		answer = session.Forgotten
	}
	e := &peerv1.Executed{Id: &peerv1.InstanceID{Writer: uint64(p.author), Number: o.number}, Answers: []*peerv1.Answer{answer}}
	if at, found := entry(table, p.author); found {
		table.Executed[at] = e
	} else {
		table.Executed = slices.Insert(table.Executed, at, e)
	}
	table.Executed = slices.DeleteFunc(table.Executed, func(e *peerv1.Executed) bool {
		return p.Config.View.Index(view.MemberID(register.Writer(e.GetId().GetWriter()).Member())) < 0
	})
}

func entry(table *peerv1.KeyState, author register.Writer) (at int, found bool) {
	return slices.BinarySearchFunc(table.Executed, author.Member(), func(e *peerv1.Executed, member uint32) int {
		return cmp.Compare(register.Writer(e.GetId().GetWriter()).Member(), member)
	})
}

func answerOf(s *state, v register.Value) *peerv1.Answer {
	return &peerv1.Answer{Present: v.Present(), Value: v, Timestamp: s.carstamp.Timestamp, Writer: uint64(s.carstamp.Writer)}
}

func commandOf(op register.Operation) *peerv1.Command {
	return &peerv1.Command{
		Function: op.Call.Function, Args: op.Call.Args, Session: op.ID.Session, Number: op.ID.Number,
		FirstIncomplete: op.ID.FirstIncomplete, IssuedAt: op.ID.IssuedAt, MaxValueBytes: uint64(op.Call.MaxValueBytes),
	}
}
