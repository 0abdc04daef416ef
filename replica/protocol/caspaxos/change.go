package caspaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// change is the change function of the paper: it returns the state after an operation, and what that answers. done says
// that the state has the operation in it already, or its client's earlier attempt, and does not change. The answer is
// nil if no carstamp is left.
func (p *Protocol) change(from base.State, o *operation) (next base.State, answer *peerv1.Answer, done bool) {
	table := &peerv1.KeyState{}
	if err := table.UnmarshalVT(from.Table); err != nil {
		p.Fault("the table of key %q is damaged: %w", o.Key, err)
		return from, wire.Answer(register.Versioned{Carstamp: from.Carstamp}), true
	}
	if last := session.RecallBatch(table, p.author, o.change, 1); last != nil {
		p.Took(pathAlreadyIn)
		return from, last[0], true
	}
	op := o.Request.Operation
	command := wire.Command(op)
	if op.Kind == register.RMW {
		if answer = session.Recall(table, command); answer != nil {
			p.Took(pathDuplicate)
			return from, answer, true
		}
	}
	if from.Carstamp.Timestamp >= register.MaxNumber {
		return from, nil, false
	}
	next = from
	carstamp := register.Carstamp{Timestamp: from.Carstamp.Timestamp + 1, Writer: p.author}
	if op.Kind == register.Write {
		next.Versioned = register.Versioned{Carstamp: carstamp, Value: op.Value}
		answer = wire.Answer(register.Versioned{Carstamp: carstamp})
	} else { // if this member does not know the function, the answer says so
		answer, _, _ = session.Execute(&p.Config, table, command, &next.Versioned, carstamp)
	}
	session.RememberBatch(table, p.author, o.change, []*peerv1.Answer{answer}, p.Config.View)
	next.Table = p.Encode(table, "the table", o.Key)
	return next, answer, false
}
