package gus

import (
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/notation"
)

// kindName is the kind of a message as the paper says it.
func kindName(m *peerv1.Message) string { return strings.TrimPrefix(m.Kind.String(), "GUS_") }

// describe shows what a message says of a write.
func describe(m *peerv1.Message) string {
	g, timestamp, writer := m.Gus, m.Timestamp, m.Writer
	var parts []string
	if g.Origin != timestamp {
		parts = append(parts, "once "+notation.Tag(g.Origin, writer, 0))
	}
	if g.Round != 0 {
		parts = append(parts, "in round "+notation.Tag(g.Round, g.Proposer, 0))
	}
	if g.Voted != 0 {
		parts = append(parts, fmt.Sprintf("voted for %s in round %s", notation.Tag(g.Voted, writer, 0), notation.Tag(g.VotedRound, g.VotedProposer, 0)))
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{g.Final, "final"}, {g.Held, "held"}, {g.Refused, "refused"}, {g.Forgotten, "forgotten"}} {
		if flag.set {
			parts = append(parts, flag.name)
		}
	}
	if g.Newest != 0 && !(g.Newest == timestamp && g.NewestWriter == writer) {
		parts = append(parts, "newest "+notation.Tag(g.Newest, g.NewestWriter, 0))
	}
	return strings.Join(parts, ", ")
}

// trace shows the origin and the round of a write.
func trace(m *peerv1.Message) (words []string) {
	if m.Gus.Origin != m.Timestamp {
		words = append(words, fmt.Sprintf("once %d", m.Gus.Origin))
	}
	if m.Gus.Round > 1 {
		words = append(words, fmt.Sprintf("round %d", m.Gus.Round))
	}
	return words
}

// describeRecord shows a register and what is undecided about it.
func describeRecord(name string, value []byte) (string, bool) {
	r := &peerv1.GusRecord{}
	if r.UnmarshalVT(value) != nil {
		return "", false
	}
	text := name + " = " + notation.Value(r.Present, r.Value) + " at " + notation.Tag(r.Timestamp, r.Writer, 0)
	for _, w := range r.Writes {
		parts := []string{notation.Tag(w.Origin, w.Writer, 0)}
		if w.Held {
			parts = append(parts, "held")
		}
		if w.PromisedRound != 0 {
			parts = append(parts, "promised to "+notation.Tag(w.PromisedRound, w.PromisedProposer, 0))
		}
		if w.Voted != 0 {
			parts = append(parts, "voted for "+notation.Tag(w.Voted, w.Writer, 0))
		}
		if w.Stored {
			parts = append(parts, "= "+notation.Value(w.Present, w.Value))
		}
		if w.Decided != 0 {
			parts = append(parts, "decided "+notation.Tag(w.Decided, w.Writer, 0))
		}
		text += " [" + strings.Join(parts, ", ") + "]"
	}
	return text, true
}
