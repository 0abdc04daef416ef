package script

import (
	"encoding/binary"
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// ofCURPRaft reports whether a message is one of CURPRaft's own.
func ofCURPRaft(k peerv1.Kind) bool { return k >= peerv1.Kind_RECORD && k <= peerv1.Kind_GATHERED }

// describeCURPRaft shows the term of a message, and what it carries.
func describeCURPRaft(m *peerv1.Message) string {
	text := fmt.Sprintf("in term %d", m.Timestamp)
	switch m.Kind {
	case peerv1.Kind_RECORD:
		c := &peerv1.RaftCommand{}
		if c.UnmarshalVT(m.Raft) == nil {
			text += ", " + describeCommand(c)
		}
	case peerv1.Kind_SPECULATED:
		a := &peerv1.Answer{}
		if a.UnmarshalVT(m.Raft) == nil {
			text += ", " + describeAnswer(a)
		}
	case peerv1.Kind_GATHERED:
		saved := &peerv1.RaftSaved{}
		if saved.UnmarshalVT(m.Raft) == nil {
			text += fmt.Sprintf(", holds of term %d:", saved.Term)
			for _, c := range saved.Commands {
				text += " [" + describeCommand(c) + "]"
			}
			if len(saved.Commands) == 0 {
				text += " nothing"
			}
		}
	}
	return text
}

func describeCommand(c *peerv1.RaftCommand) string {
	name := commandName(c.Author, c.Number)
	if c.Rmw == nil {
		return fmt.Sprintf("%s %s = %s", name, c.Key, valueName(c.Present, c.Value))
	}
	var args []string
	for _, a := range c.Rmw.Args {
		args = append(args, string(a))
	}
	return fmt.Sprintf("%s %s %s(%s)", name, c.Key, c.Rmw.Function, strings.Join(args, ", "))
}

// commandName is a command's author, and its number there.
func commandName(author, number uint64) string {
	return writerName(register.Writer(author)) + operationName(number)
}

// describeWitnessKey shows the key of a record that a witness has of a command.
func describeWitnessKey(key []byte) string {
	return "the witness's " + commandName(binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:]))
}
