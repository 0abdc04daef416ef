package gus

import (
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/notation"
)

// kindName is the kind of a message as the paper says it.
func kindName(m *peerv1.Message) string { return strings.TrimPrefix(m.Kind.String(), "GUS_") }

// describe shows what a message says of a write.
func describe(m *peerv1.Message) string {
	g, writer := m.Gus, m.Writer
	var parts notation.Parts
	parts.Add(g.Origin != m.Timestamp, "once %s", notation.Tag(g.Origin, writer, 0))
	parts.Add(g.Round != 0, "in round %s", notation.Tag(g.Round, g.Proposer, 0))
	parts.Add(g.Voted != 0, "voted for %s in round %s", notation.Tag(g.Voted, writer, 0),
		notation.Tag(g.VotedRound, g.VotedProposer, 0))
	parts.Add(g.Final, "final")
	parts.Add(g.Held, "held")
	parts.Add(g.Refused, "refused")
	parts.Add(g.Forgotten, "forgotten")
	parts.Add(g.Newest != 0 && (g.Newest != m.Timestamp || g.NewestWriter != writer), "newest %s",
		notation.Tag(g.Newest, g.NewestWriter, 0))
	return strings.Join(parts, ", ")
}

// trace shows the origin and the round of a write.
func trace(m *peerv1.Message) []string {
	var words notation.Parts
	words.Add(m.Gus.Origin != m.Timestamp, "once %d", m.Gus.Origin)
	words.Add(m.Gus.Round > 1, "round %d", m.Gus.Round)
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
		parts := notation.Parts{notation.Tag(w.Origin, w.Writer, 0)}
		parts.Add(w.Held, "held")
		parts.Add(w.PromisedRound != 0, "promised to %s", notation.Tag(w.PromisedRound, w.PromisedProposer, 0))
		parts.Add(w.Voted != 0, "voted for %s", notation.Tag(w.Voted, w.Writer, 0))
		parts.Add(w.Stored, "= %s", notation.Value(w.Present, w.Value))
		parts.Add(w.Decided != 0, "decided %s", notation.Tag(w.Decided, w.Writer, 0))
		text += " [" + strings.Join(parts, ", ") + "]"
	}
	return text, true
}
