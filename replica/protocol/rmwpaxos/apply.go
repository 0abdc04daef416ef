package rmwpaxos

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// application is one proposal being computed: cmd(v) of algorithm 3, line 12, for batches.
type application struct {
	protocol *Protocol
	next     state
	table    *peerv1.KeyState // nil until it is needed
	changed  bool
	rmws     []*peerv1.Answer // that were executed now
	reads    []*peerv1.Answer
}

// apply returns the state after the batches, what each command answers, and whether it has to be agreed on. A batch
// that the state already has in it is not applied again, which is what makes proposals safe to repeat. The base does
// not change.
func (a *application) apply(batches []*batch) (state, [][]*peerv1.Answer, bool) {
	answers := make([][]*peerv1.Answer, len(batches))
	for i, b := range batches {
		answers[i] = a.batch(b)
	}
	if a.changed && a.table != nil {
		a.next.Table = a.protocol.Encode(a.table, "a table", nil)
	}
	return a.next, answers, a.changed
}

// confirm is apply for batches that follow a state which is known to be the last one that is chosen. If nothing has to
// be agreed on, the carstamps that were counted are given to nobody.
func (p *Protocol) confirm(last state, batches []*batch) (state, [][]*peerv1.Answer, bool) {
	a := &application{protocol: p, next: last}
	next, answers, changed := a.apply(batches)
	if !changed {
		for _, answer := range a.rmws {
			answer.Timestamp, answer.Writer = 0, 0
		}
		for _, answer := range a.reads {
			answer.Timestamp, answer.Writer = last.Carstamp.Timestamp, uint64(last.Carstamp.Writer)
		}
	}
	return next, answers, changed
}

// open decodes the table, to be changed.
func (a *application) open() *peerv1.KeyState {
	if a.table == nil {
		a.table = &peerv1.KeyState{}
		if err := a.table.UnmarshalVT(a.next.Table); err != nil {
			a.protocol.Fault("the table of a register is damaged: %w", err)
		}
	}
	return a.table
}

func (a *application) batch(b *batch) []*peerv1.Answer {
	if done := a.done(b); done != nil {
		a.protocol.Took(pathAlreadyIn)
		return done
	}
	answers := make([]*peerv1.Answer, len(b.commands))
	changed := false
	for k, c := range b.commands {
		var changes bool
		answers[k], changes = a.command(c)
		changed = changed || changes
	}
	// What others may know of is noted also if it changes nothing: a copy of the batch, or an earlier proposal with it
	// that a few have voted for, could be taken up later, when it would change something.
	switch {
	case a.protocol.options.AtLeastOnce: // what changes nothing never will
		a.changed = a.changed || changed
	case changed || b.left || b.from != 0:
		a.changed = true
		a.note(b, answers)
	}
	return answers
}

// done returns what a batch has answered, if it is in the state.
func (a *application) done(b *batch) []*peerv1.Answer {
	if a.protocol.options.AtLeastOnce || len(a.next.Table) == 0 && a.table == nil {
		return nil
	}
	answers := session.RecallBatch(a.open(), b.author, b.number, len(b.commands))
	for k := range answers {
		if answer := session.Recall(a.open(), b.commands[k]); answer != nil {
			answers[k] = answer
		}
	}
	return answers
}

// note makes a batch its author's last one in the state. What a read has answered is not kept, and what its session
// remembers is not kept twice.
func (a *application) note(b *batch, answers []*peerv1.Answer) {
	answers = slices.Clone(answers)
	for k, answer := range answers {
		switch c := b.commands[k]; {
		case c.Function == readCommand:
			answers[k] = session.WithoutValue(answer)
		case session.Recall(a.open(), c) != nil:
			answers[k] = session.Forgotten
		}
	}
	session.RememberBatch(a.open(), b.author, b.number, answers, a.protocol.Config.View)
}

// command applies one command, and reports whether the state is another one then.
func (a *application) command(c *peerv1.Command) (*peerv1.Answer, bool) {
	if a.next.Carstamp.Timestamp >= register.MaxNumber && c.Function != noCommand && c.Function != readCommand {
		return &peerv1.Answer{Refused: register.Exhausted}, false
	}
	switch c.Function {
	case noCommand:
		return a.answer(nil), false
	case readCommand:
		answer := a.answer(a.next.Value)
		a.reads = append(a.reads, answer)
		return answer, false
	case writeCommand:
		a.next.Versioned = register.Versioned{Carstamp: a.nextCarstamp()}
		if len(c.Args) > 0 {
			a.next.Value = register.ValueOf(true, c.Args[0])
		}
		return a.answer(nil), true
	}
	p := a.protocol
	var table *peerv1.KeyState
	if c.Session != 0 { // at least once, commands have none
		table = a.open()
		if answer := session.Recall(table, c); answer != nil {
			p.Took(pathDuplicate)
			return answer, false
		}
	}
	// If this member does not know the function, another one does, and this one proposes for it: the answer says so.
	answer, changes, _ := session.Execute(&p.Config, table, c, &a.next.Versioned, a.nextCarstamp())
	a.rmws = append(a.rmws, answer)
	// What changes nothing is agreed on too if its session is remembered: a duplicate that comes later may find another
	// value.
	return answer, changes || c.Session != 0
}

func (a *application) nextCarstamp() register.Carstamp {
	return register.Carstamp{Timestamp: a.next.Carstamp.Timestamp + 1, Writer: a.protocol.author}
}

func (a *application) answer(v register.Value) *peerv1.Answer {
	return wire.Answer(register.Versioned{Carstamp: a.next.Carstamp, Value: v})
}
