package script

import (
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// kindName is the kind of a message, of Gus' as its paper says it.
func kindName(m *peerv1.Message) string {
	if m.Gus != nil {
		return strings.TrimPrefix(m.Gus.Kind.String(), "GUS_")
	}
	if m.RmwPaxos != nil {
		return paxosKind(m.RmwPaxos)
	}
	return m.Kind.String()
}

// describeGus shows what a message says of a write.
func describeGus(g *peerv1.Gus, timestamp, writer uint64) string {
	var parts []string
	if g.Origin != timestamp {
		parts = append(parts, "once "+tagName(g.Origin, writer, 0))
	}
	if g.Round != 0 {
		parts = append(parts, "in round "+tagName(g.Round, g.Proposer, 0))
	}
	if g.Voted != 0 {
		parts = append(parts, fmt.Sprintf("voted for %s in round %s", tagName(g.Voted, writer, 0), tagName(g.VotedRound, g.VotedProposer, 0)))
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
		parts = append(parts, "newest "+tagName(g.Newest, g.NewestWriter, 0))
	}
	return strings.Join(parts, ", ")
}

// describeGusRecord shows a register and what is undecided about it.
func describeGusRecord(r *peerv1.GusRecord) string {
	text := valueName(r.Present, r.Value) + " at " + tagName(r.Timestamp, r.Writer, 0)
	for _, w := range r.Writes {
		parts := []string{tagName(w.Origin, w.Writer, 0)}
		if w.Held {
			parts = append(parts, "held")
		}
		if w.PromisedRound != 0 {
			parts = append(parts, "promised to "+tagName(w.PromisedRound, w.PromisedProposer, 0))
		}
		if w.Voted != 0 {
			parts = append(parts, "voted for "+tagName(w.Voted, w.Writer, 0))
		}
		if w.Stored {
			parts = append(parts, "= "+valueName(w.Present, w.Value))
		}
		if w.Decided != 0 {
			parts = append(parts, "decided "+tagName(w.Decided, w.Writer, 0))
		}
		text += " [" + strings.Join(parts, ", ") + "]"
	}
	return text
}
