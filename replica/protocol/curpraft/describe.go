package curpraft

import (
	"encoding/binary"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
)

// describe shows the term of a message, and what it carries.
func describe(m *peerv1.Message) string {
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
			text += ", " + notation.Answer(a)
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
		return fmt.Sprintf("%s %s = %s", name, c.Key, notation.Value(c.Present, c.Value))
	}
	return fmt.Sprintf("%s %s %s", name, c.Key, notation.Call(c.Rmw.Function, c.Rmw.Args))
}

// commandName is a command's author, and its number there.
func commandName(author, number uint64) string {
	return notation.Writer(register.Writer(author)) + notation.Operation(number)
}

// describeWitnessKey shows the key of a record that a witness has of a command.
func describeWitnessKey(key []byte) string {
	if len(key) != 17 {
		return ""
	}
	return "the witness's " + commandName(binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:]))
}
