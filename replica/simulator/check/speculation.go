package check

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// attempt is one at completing a command of CURPRaft in one round trip.
type attempt struct {
	command *peerv1.RaftCommand
	term    uint64
}

// asking is a message that has a witness save a command. A view begins attempts anew.
type asking struct {
	from, to             view.MemberID
	author, number, term uint64
	epoch                uint64
}

// hearing is what a member has heard from another one of a command in a term; of what it has saved if the number is 0.
type hearing struct {
	member, from view.MemberID
	kind         peerv1.Kind
	number, term uint64
}

// Hears notes what a member is told of commands that are not committed.
func (l *Logs) Hears(h *Holder, from view.MemberID, m *peerv1.Message, now time.Duration) {
	switch m.Kind {
	case peerv1.Kind_RECORD:
		if g := l.group(h.Shard); g != nil {
			of := handed{h.Member, m.Op}
			if g.since[of] == nil {
				g.since[of] = map[view.MemberID]time.Duration{}
			}
			if _, known := g.since[of][from]; !known {
				g.since[of][from] = now
			}
		}
	case peerv1.Kind_RECORD_REPLY, peerv1.Kind_SPECULATED, peerv1.Kind_GATHERED:
		if g := l.group(h.Shard); g != nil && m.Epoch == h.View.Epoch {
			g.heard[hearing{h.Member, from, m.Kind, m.Op, m.Timestamp}] = true
		}
	}
}

// answered reports whether the leader of a term is a member itself, or has told it the answer to a command.
func (g *group) answered(member view.MemberID, number, term uint64) bool {
	leader := g.leaders[term]
	return leader == member || g.heard[hearing{member, leader, peerv1.Kind_SPECULATED, number, term}]
}

// records judges a message that has a witness save a command: each gets one in a term, while members stay.
func (g *group) records(h *Holder, to view.MemberID, m *peerv1.Message, c *peerv1.RaftCommand) error {
	from := h.Member
	if h.View.Joint() {
		return fmt.Errorf("has command %d saved, and members change: no leader answers it at once", c.Number)
	}
	begun := slices.ContainsFunc(g.recorded[from], func(a attempt) bool {
		return a.command.Author == c.Author && a.command.Number == c.Number && a.term == m.Timestamp
	})
	if !begun {
		g.recorded[from] = append(g.recorded[from], attempt{c, m.Timestamp})
	}
	a := asking{from, to, c.Author, c.Number, m.Timestamp, m.Epoch}
	if g.once[a] {
		return fmt.Errorf("has member %d save command %d twice in term %d", to, c.Number, m.Timestamp)
	}
	g.once[a] = true
	return nil
}

// asks judges the question of a leader what was saved.
func (g *group) asks(h *Holder, term uint64) error {
	g.gathers[term] = true
	if hard, err := h.hard(); err != nil || hard.Term > term {
		return fmt.Errorf("gathers as the leader of term %d, and its disk is of term %d", term, hard.Term)
	}
	if g.recovered[term] {
		return fmt.Errorf("gathers as the leader of term %d, which has recovered", term)
	}
	return nil
}

// recovers judges the entries of a leader of CURPRaft: the first one with commands tells what was saved before its term,
// and rests on what a majority of those who may have saved it has told in this term.
func (g *group) recovers(h *Holder, r raftMessage) (err error) {
	if !g.gathers[r.term] || g.recovered[r.term] {
		return nil
	}
	_ = field.Visit(r.raw, func(which int, _ uint64, part []byte) {
		if which != messageEntries || err != nil || field.Number(part, entryTerm) != r.term {
			return
		}
		var entry peerv1.RaftEntry
		switch raw := field.Part(part, entryData); {
		case g.recovered[r.term] || entry.UnmarshalVT(raw) != nil:
		case entry.Recovered:
			g.recovered[r.term] = true
			err = g.gathered(h, r.term)
		case len(entry.Commands) > 0:
			err = fmt.Errorf("proposes commands as the leader of term %d, and has not recovered", r.term)
		}
	})
	return err
}

// gathered judges that a leader has heard from so many what they have saved, with itself.
func (g *group) gathered(h *Holder, term uint64) error {
	before, told := h.View.Before(), 0
	for _, m := range before.Members {
		if m.ID == h.Member || g.heard[hearing{h.Member, m.ID, peerv1.Kind_GATHERED, 0, term}] {
			told++
		}
	}
	if 2*told <= before.Size() {
		return fmt.Errorf("recovers as the leader of term %d, and %d of %d have told what they have saved", term, told,
			before.Size())
	}
	return nil
}

// savesAnew judges that a witness saves no command that the state on its disk has executed: nothing would drop it.
func (h *Holder) savesAnew(b *protocol.Batch) error {
	for _, m := range b.Mutations {
		if len(m.Key) != 17 || m.Key[0] != raftSaved || m.Value == nil {
			continue
		}
		author, number := savedBy(string(m.Key))
		if h.over(author, number) {
			return fmt.Errorf("saves command %d of author %d, which its state has", number, author)
		}
	}
	return nil
}

// Speculates judges what a member of CURPRaft is about to send, against its journal: as a leader, that it answers
// before the commit once it has recovered, and no command that comes behind another one of its key; as a witness,
// that it hands over what it has saved only if that is there for long: it is counted by rounds of Retry.
func (l *Logs) Speculates(h *Holder, sends []protocol.Envelope, journal func([]byte) ([]byte, bool),
	now, retry time.Duration) error {
	g := l.group(h.Shard)
	if g == nil || len(g.gathers) == 0 {
		return nil
	}
	for _, e := range sends {
		var err error
		switch e.Message.Kind {
		case peerv1.Kind_SPECULATED:
			err = rests(journal, e.To, e.Message)
		case peerv1.Kind_RAFT_PROPOSE:
			err = g.handsOver(h, e.Message, now, retry)
		}
		if err != nil {
			return fmt.Errorf("member %d, shard %d: %w", h.Member, h.Shard, err)
		}
	}
	return nil
}

// rests judges what an answer before the commit rests on.
func rests(journal func([]byte) ([]byte, bool), to view.MemberID, m *peerv1.Message) error {
	raw, _ := journal([]byte(raftApplied))
	var applied peerv1.RaftApplied
	if err := applied.UnmarshalVT(raw); err != nil {
		return err
	}
	if applied.Served < m.Timestamp {
		return fmt.Errorf("answers in term %d before the commit, and its state is of the recovery of term %d",
			m.Timestamp, applied.Served)
	}
	var before []*peerv1.RaftCommand
	for i := applied.Index + 1; ; i++ {
		raw, there := journal(binary.BigEndian.AppendUint64([]byte{raftEntry}, i))
		if !there {
			return nil // it is executed by now
		}
		var entry peerv1.RaftEntry
		if err := entry.UnmarshalVT(field.Part(raw, entryData)); err != nil {
			return err
		}
		for _, c := range entry.Commands {
			if c.Number == m.Op && register.Writer(c.Author).Member() == uint32(to) {
				if over(&applied, c.Author, c.Number) {
					return nil // it was executed in this turn, and this entry is of a second attempt
				}
				other := func(o *peerv1.RaftCommand) bool {
					return string(o.Key) == string(c.Key) && !over(&applied, o.Author, o.Number)
				}
				if slices.ContainsFunc(before, other) {
					return fmt.Errorf("answers command %d of member %d before the commit, behind another one of key %q",
						m.Op, to, c.Key)
				}
				return nil
			}
			before = append(before, c)
		}
	}
}

// handsOver judges that who is a witness of another member's command hands it to a leader only once that is late.
func (g *group) handsOver(h *Holder, m *peerv1.Message, now, retry time.Duration) error {
	proposal := &peerv1.RaftProposal{}
	if err := proposal.UnmarshalVT(m.Raft); err != nil {
		return err
	}
	for _, c := range proposal.Commands {
		author := view.MemberID(register.Writer(c.Author).Member())
		at, saved := g.since[handed{h.Member, c.Number}][author]
		if saved && author != h.Member && now-at < retry*9/10 {
			return fmt.Errorf("hands over command %d of member %d, which it was to save just %v ago", c.Number,
				author, now-at)
		}
	}
	return nil
}
