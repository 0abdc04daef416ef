package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// Turn is what a member of a Raft group says in one turn.
type Turn struct {
	Sends   []protocol.Envelope // at once
	Waits   []protocol.Envelope // once its disk has all that its journal has
	Ends    bool                // an operation whose answer rests on what is applied ends once the disk has that
	Life    uint32              // of the process
	Tick    protocol.Instant    // when it was told the time last
	Retry   time.Duration       // the shortest that it has had
	Votes   bool
	Journal func(key []byte) ([]byte, bool)
}

// askedOf names a question of a process.
type askedOf struct {
	from, to view.MemberID
	life     uint32
	kind     peerv1.Kind
	op, term uint64
}

// spoken names a command that a leader's process has answered before its commit.
type spoken struct {
	leader view.MemberID
	life   uint32
	term   uint64
	handed uint64
	author uint64
}

// toSave is a command that a process had another member save in a term.
type toSave struct {
	from, to     view.MemberID
	life         uint32
	number, term uint64
}

// turns is what is remembered of the processes of a group. None of it is ever ranged over.
type turns struct {
	asked  map[askedOf]protocol.Instant // when it was asked last
	pulls  map[process]*fetch           // the last one that has begun
	saves  map[toSave]bool
	spoken map[spoken][]byte  // the answers
	last   map[process]uint64 // the last entry of its journal that was looked at
}

// process is one of a member.
type process struct {
	member view.MemberID
	life   uint32
}

// Turns judges what a member says in a turn: that nobody asks anew before Retry, or has a page be sent of what it has;
// that nothing waits for a disk that has what it rests on; and what CURPRaft's coordinators and leaders do with
// commands. The turn is asked for only where there is a log.
func (l *Logs) Turns(h *Holder, turn func() *Turn) error {
	g := l.group(h.Shard)
	if g == nil {
		return nil
	}
	t := turn()
	for _, judge := range []func() error{
		func() error { return g.asksAnew(h, t) },
		func() error { return l.waits(h, t) },
		func() error { return g.hasSaved(h, t) },
		func() error { return g.speaksAgain(h, t) },
	} {
		if err := judge(); err != nil {
			return fmt.Errorf("member %d, shard %d: %w", h.Member, h.Shard, err)
		}
	}
	return nil
}

// asksAnew judges questions: a leader asks what is saved, and a newcomer for an index, once in Retry; and who fetches a
// state leaves out what its own has.
func (g *group) asksAnew(h *Holder, t *Turn) error {
	for i := range t.Sends {
		e := &t.Sends[i]
		m := e.Message
		q := askedOf{h.Member, e.To, t.Life, m.Kind, m.Op, m.Timestamp}
		switch m.Kind {
		case peerv1.Kind_GATHER, peerv1.Kind_RAFT_SETTLE:
			last, known := g.turns.asked[q]
			// One that starts while it joins may begin anew at once.
			if known && t.Tick != last && t.Tick.Sub(last) < t.Retry*9/10 {
				return fmt.Errorf("says %v to member %d again after %v", m.Kind, e.To, t.Tick.Sub(last))
			}
			if g.turns.asked == nil {
				g.turns.asked = map[askedOf]protocol.Instant{}
			}
			g.turns.asked[q] = t.Tick
		case peerv1.Kind_RAFT_PULL:
			isNew, err := g.fetches(process{h.Member, t.Life}, m)
			if err != nil {
				return err
			}
			if !isNew {
				continue
			}
			has := h.Records[raftApplied]
			if !t.Votes {
				has, _ = t.Journal([]byte(raftBasis))
			}
			above, index := field.Number(m.Raft, pullAbove), field.Number(has, appliedIndex)
			if above < index {
				return fmt.Errorf("fetches what came after entry %d, and has the state after %d", above, index)
			}
		}
	}
	return nil
}

// fetch is one of a state, in pages.
type fetch struct {
	op, epoch, above uint64
	more             bool     // the state that it comes to is a later one
	known            []uint32 // incarnations
	after            []byte   // of the page that was asked for last
	asked            int      // how often that was
}

// fetches judges a question for a page, and reports whether a fetch begins with it: one that makes no progress goes on
// as long as its page was asked for once, unless it asks somebody whose disk was lost since.
func (g *group) fetches(who process, m *peerv1.Message) (isNew bool, err error) {
	if g.turns.pulls == nil {
		g.turns.pulls = map[process]*fetch{}
	}
	now := &fetch{
		op: m.Op, epoch: m.Epoch, above: field.Number(m.Raft, pullAbove), known: m.Known,
		more:  field.Number(m.Raft, pullLeast) > field.Number(m.Raft, pullAbove),
		after: field.Part(m.Raft, pullAfter), asked: 1,
	}
	last := g.turns.pulls[who]
	g.turns.pulls[who] = now
	switch {
	case last == nil || last.epoch != now.epoch:
		return true, nil
	case last.op == now.op:
		if bytes.Equal(last.after, now.after) {
			now.asked += last.asked
		}
		return false, nil
	case last.more && last.asked == 1 && last.above == now.above && slices.Equal(last.known, now.known):
		return true, fmt.Errorf("begins to fetch anew what came after entry %d, and has asked once for the page after %q",
			now.above, last.after)
	}
	return true, nil
}

// waits judges what waits for the disk: that does not have what it rests on.
func (l *Logs) waits(h *Holder, t *Turn) error {
	for i := range t.Waits {
		m, told := t.Waits[i].Message, uint64(0)
		switch m.Kind {
		case peerv1.Kind_RAFT:
			r, err := readRaft(m.Raft)
			if err != nil {
				return err
			}
			switch r.kind {
			case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgPreVote:
				told = r.commit
			case raftpb.MsgSnap:
				told = r.snapped
			default:
				continue // it promises something
			}
		case peerv1.Kind_RAFT_READ_REPLY, peerv1.Kind_EXECUTED:
			if len(m.Raft) > 0 {
				continue
			}
			told = m.Timestamp
		default:
			continue
		}
		if l.has(h, t, told) {
			return fmt.Errorf("says %v once its disk has entry %d, and that has it", m.Kind, told)
		}
	}
	if applied, _ := t.Journal([]byte(raftApplied)); t.Ends {
		if index := field.Number(applied, appliedIndex); l.has(h, t, index) {
			return fmt.Errorf("answers a client once its disk has entry %d, and that has it", index)
		}
	}
	return nil
}

// has reports whether the disk has the log up to an index as the journal has it.
func (l *Logs) has(h *Holder, t *Turn, index uint64) bool {
	if index > l.Last(h) {
		return false
	}
	raw, _ := t.Journal(binary.BigEndian.AppendUint64([]byte{raftEntry}, index))
	return index <= l.of(h).begins || bytes.Equal(raw, h.entry(index))
}

// mostSaved is the size of the largest command that witnesses save (cache.MaxRequest).
const mostSaved = 2 << 10

// hasSaved judges that a command which a coordinator hands over while a leader of CURPRaft serves is on its way to all
// witnesses, too, in each term anew, unless it can't be saved by enough of them.
func (g *group) hasSaved(h *Holder, t *Turn) error {
	for i := range t.Sends {
		if m := t.Sends[i].Message; m.Kind == peerv1.Kind_RECORD {
			if g.turns.saves == nil {
				g.turns.saves = map[toSave]bool{}
			}
			g.turns.saves[toSave{h.Member, t.Sends[i].To, t.Life, m.Op, m.Timestamp}] = true
		}
	}
	term := field.Number(h.Records[raftApplied], appliedServed)
	applied, _ := t.Journal([]byte(raftApplied))
	if h.View.Joint() || term == 0 || field.Number(applied, appliedServed) != term || Term(t.Journal) != term {
		return nil // or it has changed in this turn
	}
	size := h.View.Size()
	heard := size/2 + 1
	all := heard/2+1 == heard // each witness has to save it
	saved := func(c *peerv1.RaftCommand) bool {
		_, there := t.Journal(savedKey(c.Author, c.Number))
		return there
	}
	for i := range t.Sends {
		m := t.Sends[i].Message
		switch m.Kind {
		case peerv1.Kind_RECORD:
			c := &peerv1.RaftCommand{}
			if err := c.UnmarshalVT(m.Raft); err != nil {
				return err
			}
			if all && m.Timestamp == term && !saved(c) && !overIn(applied, c.Author, c.Number) {
				return fmt.Errorf("has others save command %d, which all have to, and has not saved it", c.Number)
			}
		case peerv1.Kind_RAFT_PROPOSE:
			proposal := &peerv1.RaftProposal{}
			if err := proposal.UnmarshalVT(m.Raft); err != nil {
				return err
			}
			for _, c := range proposal.Commands {
				mine := register.Writer(c.Author).Member() == uint32(h.Member) && c.FirstIncomplete > 0
				if !mine || c.SizeVT() > mostSaved || all && !saved(c) {
					continue
				}
				for _, other := range h.View.Members {
					if other.ID != h.Member && !g.turns.saves[toSave{h.Member, other.ID, t.Life, c.Number, term}] {
						return fmt.Errorf("hands over command %d in term %d, and does not have member %d save it",
							c.Number, term, other.ID)
					}
				}
			}
		}
	}
	return nil
}

// speaksAgain judges that a leader which gets a command again, and has answered it before its commit, says the same
// once more: its first answer may be lost.
func (g *group) speaksAgain(h *Holder, t *Turn) error {
	term := Term(t.Journal)
	if !g.gathers[term] || g.leaders[term] != h.Member {
		return nil
	}
	at := process{h.Member, t.Life}
	if g.turns.last == nil {
		g.turns.last, g.turns.spoken = map[process]uint64{}, map[spoken][]byte{}
	}
	applied, _ := t.Journal([]byte(raftApplied))
	last := max(g.turns.last[at], field.Number(applied, appliedIndex))
	for ; ; last++ {
		raw, there := t.Journal(binary.BigEndian.AppendUint64([]byte{raftEntry}, last+1))
		if !there {
			break
		}
		var entry peerv1.RaftEntry
		if err := entry.UnmarshalVT(field.Part(raw, entryData)); err != nil {
			return err
		}
		for _, c := range entry.Commands {
			answer := answerOf(c, term, t.Sends)
			is := spoken{h.Member, t.Life, term, c.Number, c.Author}
			switch first, known := g.turns.spoken[is]; {
			case !known && answer != nil:
				g.turns.spoken[is] = answer
			case known && !bytes.Equal(first, answer) && field.Number(raw, entryTerm) == term &&
				!overIn(applied, c.Author, c.Number):
				return fmt.Errorf("gets command %d again, and does not tell its client again what it has answered",
					c.Number)
			}
		}
	}
	g.turns.last[at] = last
	return nil
}

// answerOf is what a leader is about to tell of a command before its commit; nil: nothing.
func answerOf(c *peerv1.RaftCommand, term uint64, sends []protocol.Envelope) []byte {
	for i := range sends {
		m := sends[i].Message
		if m.Kind == peerv1.Kind_SPECULATED && m.Op == c.Number && m.Timestamp == term &&
			register.Writer(c.Author).Member() == uint32(sends[i].To) {
			return append([]byte{}, m.Raft...)
		}
	}
	return nil
}
