package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// saves judges what a member says as a witness of CURPRaft: what it has saved is on its disk, or executed, and it
// saves nothing of a term before that whose leader it told what it has.
func (l *Logs) saves(h *Holder, to view.MemberID, m *peerv1.Message) error {
	g, d := l.group(h.Shard), l.of(h)
	switch m.Kind {
	case peerv1.Kind_RECORD:
		c := &peerv1.RaftCommand{}
		if err := c.UnmarshalVT(m.Raft); err != nil {
			return err
		}
		g.saved[handed{h.Member, m.Op}] = c.Author
		return g.records(h, to, m, c)
	case peerv1.Kind_GATHERED:
		d.gathered = max(d.gathered, m.Timestamp)
		if hard, err := h.hard(); err != nil || hard.Term < m.Timestamp {
			return fmt.Errorf("tells the leader of term %d what it has saved, and its disk is of term %d",
				m.Timestamp, hard.Term)
		}
		return h.gathers(m)
	case peerv1.Kind_RECORD_REPLY:
		if m.Timestamp < d.gathered {
			return fmt.Errorf("saves command %d in term %d, and told the leader of term %d what it has", m.Op,
				m.Timestamp, d.gathered)
		}
		if author, known := g.saved[handed{to, m.Op}]; known && !h.saved(author, m.Op) {
			return fmt.Errorf("says to have saved command %d of member %d, which its disk does not have", m.Op, to)
		}
	}
	return nil
}

// gathers judges what a member tells a new leader that it has saved: all that its disk has of an earlier
// one's term. It saves nothing of that any more.
func (h *Holder) gathers(m *peerv1.Message) error {
	told := &peerv1.RaftSaved{}
	if err := told.UnmarshalVT(m.Raft); err != nil {
		return err
	}
	if told.Term >= m.Timestamp {
		return nil // that leader has recovered, and commands are saved in its term
	}
	lacks := ""
	for key, raw := range h.Records { // order is irrelevant: the first of all keys is told
		if len(key) != 17 || key[0] != raftSaved || len(raw) < 8 || binary.BigEndian.Uint64(raw) != told.Term {
			continue
		}
		author, number := savedBy(key)
		is := func(c *peerv1.RaftCommand) bool { return c.Author == author && c.Number == number }
		if !slices.ContainsFunc(told.Commands, is) && (lacks == "" || key < lacks) {
			lacks = key
		}
	}
	if lacks != "" {
		author, number := savedBy(lacks)
		return fmt.Errorf("does not tell the leader of term %d of command %d of author %d, which it has saved in term %d",
			m.Timestamp, number, author, told.Term)
	}
	return nil
}

// savedBy is of which author a saved command is, and its number, by the key of its record.
func savedBy(key string) (author, number uint64) {
	return binary.BigEndian.Uint64([]byte(key)[1:]), binary.BigEndian.Uint64([]byte(key)[9:])
}

// AnswersAtOnce judges an answer that a client of CURPRaft gets before its command is committed, from the member that
// coordinates it: whichever of the group a new leader hears, which are just a majority, more than half of these have
// saved the command, or have executed it, and have told that member so in one term, whose leader has answered. All are
// the disks of the coordinator's view; of one that was lost it is nil.
func (l *Logs) AnswersAtOnce(shard int, from view.MemberID, op *register.Operation, all []*Holder) error {
	g := l.group(shard)
	if g == nil {
		return nil
	}
	heard, known := len(all)/2+1, false
	for _, r := range slices.Backward(g.recorded[from]) {
		c := r.command
		if !is(c, op) {
			continue
		}
		known = true
		lack, silent := 0, 0
		for _, h := range all {
			if h != nil && !h.saved(c.Author, c.Number) {
				lack++
			}
			if h != nil && h.Member != from &&
				!g.heard[hearing{from, h.Member, peerv1.Kind_RECORD_REPLY, c.Number, r.term}] {
				silent++
			}
		}
		alone := len(all) == 1 // it leads, and tells itself without a message
		if 2*(heard-lack) > heard && 2*(heard-silent) > heard && (alone || g.answered(from, c.Number, r.term)) {
			return nil
		}
	}
	if !known {
		return nil // it was sent again through another member, or its process has started since
	}
	return fmt.Errorf("member %d, shard %d: a client is told of an update of %q that is not committed, and in no term have "+
		"the leader answered and so many of %d saved it that a new leader has to find it", from, shard, op.Key, len(all))
}

// is reports whether a command is that of an operation: values are written once, and rmws have ids, or their
// arguments.
func is(c *peerv1.RaftCommand, op *register.Operation) bool {
	if string(c.Key) != op.Key || (c.Rmw != nil) != (op.Kind == register.RMW) {
		return false
	}
	if c.Rmw == nil {
		return c.Present == op.Value.Present() && bytes.Equal(c.Value, op.Value)
	}
	return c.Rmw.Session == op.ID.Session && c.Rmw.Number == op.ID.Number && c.Rmw.Function == op.Call.Function &&
		slices.EqualFunc(c.Rmw.Args, op.Call.Args, bytes.Equal)
}

// saved reports whether a command is saved on the disk, or executed there.
func (h *Holder) saved(author, number uint64) bool {
	if _, there := h.Records[string(savedKey(author, number))]; there {
		return true
	}
	return h.over(author, number)
}

func savedKey(author, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{raftSaved}, author), number)
}

// over reports whether a command is executed in the state on the disk, or given up.
func (h *Holder) over(author, number uint64) bool {
	return overIn(h.Records[raftApplied], author, number)
}

// overIn is the same of what a state says of itself.
func overIn(raw []byte, author, number uint64) bool {
	var applied peerv1.RaftApplied
	return applied.UnmarshalVT(raw) == nil && over(&applied, author, number)
}

func over(applied *peerv1.RaftApplied, author, number uint64) bool {
	return slices.ContainsFunc(applied.Authors, func(a *peerv1.RaftAuthor) bool {
		return a.Author == author && (number < a.FirstIncomplete || slices.Contains(a.Done, number))
	})
}

// replays judges an entry with what a new leader of CURPRaft has gathered. These commands come in any order, so that
// none may have another one count as over that its client has an answer to and that comes behind it.
func replays(raw []byte) error {
	if field.Number(raw, entryRecovered) == 0 {
		return nil
	}
	var entry peerv1.RaftEntry
	if err := entry.UnmarshalVT(raw); err != nil {
		return err
	}
	for _, c := range entry.Commands {
		if c.FirstIncomplete != 0 || c.GetRmw().GetFirstIncomplete() != 0 {
			return fmt.Errorf("replays command %d of author %d with what was acknowledged when that was issued", c.Number,
				c.Author)
		}
	}
	return nil
}
