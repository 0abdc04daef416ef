package rmwpaxos

import (
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
)

// kindName is the kind of a message, nearly as the paper says it.
func kindName(m *peerv1.Message) string {
	return strings.TrimPrefix(m.Kind.String(), "PAXOS_")
}

// roundName is n/proposer of the attempt; 0 for the initial round.
func roundName(r *peerv1.RMWPaxosRound) string {
	switch {
	case r == nil:
		return "0"
	case r.Proposer == 0:
		return fmt.Sprintf("%d of nobody", r.N)
	}
	return fmt.Sprintf("%d/%s%s", r.N, notation.Writer(register.Writer(r.Proposer)), notation.Operation(r.Attempt))
}

// describe shows what a message says of rounds.
func describe(message *peerv1.Message) string {
	m := message.RmwPaxos
	var parts []string
	switch message.Kind {
	case peerv1.Kind_PAXOS_PREPARE:
		if m.Round.GetN() != 0 {
			parts = append(parts, "round "+roundName(m.Round))
		}
	case peerv1.Kind_PAXOS_ACK:
		parts = append(parts, "grants "+roundName(m.Round))
	case peerv1.Kind_PAXOS_STATE, peerv1.Kind_PAXOS_NACK:
		parts = append(parts, "promised "+roundName(m.Round))
	case peerv1.Kind_PAXOS_VOTE, peerv1.Kind_PAXOS_VOTED:
		parts = append(parts, "in round "+roundName(m.Round))
	}
	switch {
	case message.Kind == peerv1.Kind_PAXOS_ACK, message.Kind == peerv1.Kind_PAXOS_STATE:
		parts = append(parts, votedName(m.Voted, m.VotedIn))
	case m.Voted != nil:
		parts = append(parts, "has "+roundName(m.Voted))
	}
	if m.Try > 1 {
		parts = append(parts, fmt.Sprintf("try %d", m.Try))
	}
	if m.Hot {
		parts = append(parts, "hot")
	}
	return strings.Join(parts, ", ")
}

func votedName(r *peerv1.RMWPaxosRound, in uint64) string {
	if r != nil && in == 0 {
		return "a copy of " + roundName(r)
	}
	return "voted " + roundName(r)
}

// describeRecord shows an acceptor.
func describeRecord(name string, value []byte) (string, bool) {
	r := &peerv1.RMWPaxosRecord{}
	if r.UnmarshalVT(value) != nil {
		return "", false
	}
	return fmt.Sprintf("%s = %s at %d, promised %s, %s", name, notation.Value(r.Present, r.Value), r.Timestamp, roundName(base.PromisedIn(r).Wire()), votedName(r.Voted, r.VotedIn)), true
}
