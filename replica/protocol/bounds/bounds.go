// Package bounds tells messages whose numbers somebody can have counted up to from those that are broken or made up.
// One number near the largest there is would end a key, or a whole member: nothing could come after it.
package bounds

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// maxIncarnation is as many bits as a register.Writer has for it.
const maxIncarnation = 1<<16 - 1

// Message reports a message of a peer with a number above its bound: register.MaxNumber, or 65535 for incarnations.
// Numbers that are drawn at random or chosen by clients have none. The error wraps register.ErrNumber then; it also
// reports what is no Table.
func Message(m *peerv1.Message) error {
	c := told()
	c.message(m)
	if c.above > 0 {
		return c.report("message " + m.Kind.String())
	}
	if table := m.GetRmwPaxos().GetTable(); len(table) > 0 {
		if err := Table(table); err != nil {
			return fmt.Errorf("message %s: %w", m.Kind, err)
		}
	}
	return nil
}

// Numbers reports a number above its bound of what has a format of its own. The error wraps register.ErrNumber.
func Numbers(what string, numbers ...uint64) error {
	c := told()
	c.of(numbers...)
	return c.report(what)
}

// Counted is Numbers of what a member itself has counted up to, and has on its disk.
func Counted(what string, numbers ...uint64) error {
	c := counted()
	c.of(numbers...)
	return c.report(what)
}

// check is the largest number that was seen above its bound; 0: none was.
type check struct{ most, above uint64 }

// told are the bounds of what others tell.
func told() check { return check{most: register.MaxNumber} }

// counted are the bounds of a disk: its member may have counted on from the largest number that others may tell it, or
// they could cost it its disk.
func counted() check { return check{most: 2 * register.MaxNumber} }

func (c *check) report(what string) error {
	if c.above == 0 {
		return nil
	}
	return fmt.Errorf("%s tells of number %d: %w", what, c.above, register.ErrNumber)
}

func (c *check) of(numbers ...uint64) { c.upTo(c.most, numbers...) }

// stamps are parts of carstamps: nobody counts on from the largest.
func (c *check) stamps(numbers ...uint64) { c.upTo(register.MaxNumber, numbers...) }

func (c *check) epochs(numbers ...uint64) { c.upTo(view.MaxEpoch, numbers...) }

func (c *check) upTo(most uint64, numbers ...uint64) {
	for _, n := range numbers {
		if n > most {
			c.above = max(c.above, n)
		}
	}
}

func (c *check) incarnations(numbers ...uint32) {
	for _, n := range numbers {
		c.upTo(maxIncarnation, uint64(n))
	}
}

func (c *check) message(m *peerv1.Message) {
	c.of(m.Timestamp, m.Rmws)
	for _, d := range m.After {
		c.of(d.Timestamp, d.Rmws)
	}
	c.instance(m.Instance)
	c.curp(m.Curp)
	if g := m.Gus; g != nil {
		c.of(g.Origin, g.Round, g.Born, g.Voted, g.VotedRound, g.Newest, g.Ended)
	}
	if r := m.RmwPaxos; r != nil {
		// Attempts are told apart, and never counted from what others say.
		c.of(r.GetRound().GetN(), r.GetVoted().GetN(), r.VotedIn)
	}
	c.of(m.GetWitness().GetTerm(), m.GetWitness().GetPromises())
	c.of(m.Start, m.Batches)
	c.positions(m.Positions)
	c.incarnations(m.Incarnation, m.GetTransfer().GetIncarnation())
	c.incarnations(m.Known...)
}

func (c *check) positions(all []*peerv1.Position) {
	for _, p := range all {
		c.of(p.GetStart(), p.GetBatches(), p.GetBefore())
		c.incarnations(p.GetIncarnation())
	}
}

func (c *check) instance(i *peerv1.Instance) {
	if i == nil {
		return
	}
	c.of(i.GetId().GetNumber(), i.Ballot, i.AcceptedBallot, i.Seq)
	for _, d := range i.Deps {
		c.of(d.GetNumber())
	}
	for _, d := range i.GetNoted().GetDeps() {
		c.of(d.GetNumber())
	}
	c.of(i.GetNoted().GetSeq())
	for _, r := range i.Rivals {
		c.of(r.GetId().GetNumber())
	}
	c.answers(i.Answers)
	c.state(i.State)
}

func (c *check) state(s *peerv1.KeyState) {
	if s == nil {
		return
	}
	c.of(s.GetPrevious().GetTimestamp(), s.GetPrevious().GetRmws(), s.Count, s.Seq)
	for _, e := range s.Executed {
		c.of(e.GetId().GetNumber(), e.Reads, e.Idle)
		c.answers(e.Answers)
	}
}

func (c *check) answers(all []*peerv1.Answer) {
	for _, a := range all {
		c.of(a.GetTimestamp(), a.GetRmws())
	}
}

func (c *check) curp(m *peerv1.Curp) {
	if m == nil {
		return
	}
	c.of(m.Last, m.Commit, m.Start, m.WholeIndex, m.GetAnswer().GetTimestamp(), m.GetAnswer().GetRmws())
	c.epochs(m.Term, m.WholeTerm) // terms of partitions are epochs
	for _, e := range m.Entries {
		c.entry(e)
	}
	c.history(m.History)
}

func (c *check) entry(e *peerv1.LogEntry) {
	c.epochs(e.GetTerm())
	c.of(e.GetIndex())
}

func (c *check) history(all []*peerv1.TermStart) {
	for _, t := range all {
		c.epochs(t.GetTerm())
		c.of(t.GetStart())
	}
}
