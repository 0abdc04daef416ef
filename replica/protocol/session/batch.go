package session

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Bounds on the answers that a state keeps of a member's last batch, in bytes: of one answer, and of all.
const (
	keptAnswer  = 16 << 10
	keptAnswers = 64 << 10
)

// RecallBatch returns what a member's batch of so many commands has answered, if the state has it, or nil. There is one
// entry for each member, of the last batch of its last disk. Each member changes a key by one batch after the other, so
// an older one is over, and is not applied again: its author has given it up, and heeds no answer.
func RecallBatch(state *peerv1.KeyState, author register.Writer, number uint64, commands int) []*peerv1.Answer {
	at, found := lastOf(state, author)
	if !found {
		return nil
	}
	last := state.Executed[at]
	if earlier := cmp.Or(
		cmp.Compare(register.Writer(last.GetId().GetWriter()).Incarnation(), author.Incarnation()),
		cmp.Compare(last.GetId().GetNumber(), number),
	); earlier < 0 {
		return nil
	}
	// After a change of the view a batch may be shorter: it ends with the last command that somebody still waits for.
	answers := slices.Clone(last.Answers[:min(len(last.Answers), commands)])
	return append(answers, slices.Repeat([]*peerv1.Answer{Forgotten}, commands-len(answers))...)
}

// RememberBatch makes a batch its author's last one in the state, and forgets those of members that the view does not
// have: nobody asks for them any more. Of an answer that is too long, the carstamp alone is kept.
func RememberBatch(
	state *peerv1.KeyState, author register.Writer, number uint64, answers []*peerv1.Answer, members view.View,
) {
	e := &peerv1.Executed{Id: &peerv1.InstanceID{Writer: uint64(author), Number: number}}
	size := 0
	for _, answer := range answers {
		if len(answer.Value) > keptAnswer || size+len(answer.Value) > keptAnswers {
			answer = WithoutValue(answer)
		}
		size += len(answer.Value)
		e.Answers = append(e.Answers, answer)
	}
	if at, found := lastOf(state, author); found {
		state.Executed[at] = e
	} else {
		state.Executed = slices.Insert(state.Executed, at, e)
	}
	state.Executed = slices.DeleteFunc(state.Executed, func(e *peerv1.Executed) bool {
		return members.Index(view.MemberID(register.Writer(e.GetId().GetWriter()).Member())) < 0
	})
}

// lastOf finds the last batch of a member's lane: the low bits of an author, of which a process has any number.
func lastOf(state *peerv1.KeyState, author register.Writer) (at int, found bool) {
	return slices.BinarySearchFunc(state.Executed, author, func(e *peerv1.Executed, author register.Writer) int {
		w := register.Writer(e.GetId().GetWriter())
		return cmp.Or(cmp.Compare(w.Member(), author.Member()), cmp.Compare(w.Boot(), author.Boot()))
	})
}

// WithoutValue stands for an answer of which the carstamp alone is kept.
func WithoutValue(a *peerv1.Answer) *peerv1.Answer {
	return &peerv1.Answer{Expired: true, Timestamp: a.Timestamp, Writer: a.Writer}
}
