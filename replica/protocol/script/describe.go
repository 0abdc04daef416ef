package script

import (
	"encoding/binary"
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

func (p packet) String() string {
	return fmt.Sprintf("%s -> %s: %s", notation.Member(p.from), notation.Member(p.to), describeMessage(p.message))
}

func describeMessage(m *peerv1.Message) string {
	var parts []string
	own := catalog.MessagesOf(m)
	if m.Kind != peerv1.Kind_KIND_UNSPECIFIED { // an instance's record is a message without a kind
		parts = append(parts, kindName(own, m))
	}
	if m.Op != 0 {
		parts = append(parts, notation.Operation(m.Op))
	}
	if len(m.Key) > 0 {
		parts = append(parts, string(m.Key))
	}
	switch tag := notation.Tag(m.Timestamp, m.Writer, m.Rmws); {
	case own.NoCarstamp:
	case m.Same:
		parts = append(parts, "same, at "+tag)
	case m.Kind == peerv1.Kind_READ2 && len(m.After) > 0:
	case carriesValue(m.Kind) || m.Present:
		parts = append(parts, "= "+notation.Value(m.Present, m.Value)+" at "+tag)
	case tag != "0" || m.Kind == peerv1.Kind_WRITE1_REPLY:
		parts = append(parts, "at "+tag)
	}
	if len(m.After) > 0 {
		parts = append(parts, "after "+describeAfter(m.After))
	}
	if own.Describe != nil {
		if text := own.Describe(m); text != "" {
			parts = append(parts, text)
		}
	}
	if m.Instance != nil {
		parts = append(parts, describeInstance(m.Instance))
	}
	if text := describeTransfer(m.Transfer); text != "" {
		parts = append(parts, text)
	}
	if m.Epoch > 1 {
		parts = append(parts, fmt.Sprintf("(epoch %d)", m.Epoch))
	}
	if m.Incarnation > 1 {
		parts = append(parts, fmt.Sprintf("(incarnation %d)", m.Incarnation))
	}
	if len(m.Known) > 0 {
		parts = append(parts, fmt.Sprintf("(knows %v)", m.Known))
	}
	return strings.Join(parts, " ")
}

// kindName is the kind of a message, or what its protocol calls it.
func kindName(own definition.Messages, m *peerv1.Message) string {
	if own.Kind != nil {
		return own.Kind(m)
	}
	return m.Kind.String()
}

// carriesValue says which kinds tell of a value, be it absent.
func carriesValue(k peerv1.Kind) bool {
	switch k {
	case peerv1.Kind_READ1_REPLY, peerv1.Kind_READ2, peerv1.Kind_WRITE2:
		return true
	}
	return false
}

// instanceName is the writer's name, with the lane if it is not the first, and the number.
func instanceName(id *peerv1.InstanceID) string {
	w := register.Writer(id.GetWriter())
	name := notation.Writer(w)
	if w.Boot() == 1 {
		name = fmt.Sprintf("%s.%d.1", notation.Member(view.MemberID(w.Member())), w.Incarnation())
	}
	return fmt.Sprintf("%s#%d", name, id.GetNumber())
}

func describeInstance(i *peerv1.Instance) string {
	parts := []string{instanceName(i.Id)}
	if i.Status != peerv1.Status_NONE {
		parts = append(parts, strings.ToLower(i.Status.String()))
	}
	if i.Ballot != 0 || i.AcceptedBallot != 0 {
		parts = append(parts, fmt.Sprintf("ballot=%d accepted=%d", i.Ballot, i.AcceptedBallot))
	}
	for _, c := range i.Commands {
		parts = append(parts, describeOrdered(c))
	}
	if len(i.Deps) > 0 {
		var deps []string
		for _, d := range i.Deps {
			deps = append(deps, instanceName(d))
		}
		parts = append(parts, "deps="+strings.Join(deps, ","))
	}
	if i.Seq > 0 {
		parts = append(parts, fmt.Sprintf("seq=%d", i.Seq))
	}
	if i.Alone {
		parts = append(parts, "alone")
	}
	if i.Agreed {
		parts = append(parts, "agreed")
	}
	for _, a := range i.Answers {
		parts = append(parts, "answer="+notation.Answer(a))
	}
	if i.State != nil {
		parts = append(parts, "state="+describeState(i.State))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// describeOrdered shows a command of an instance.
func describeOrdered(c *peerv1.Command) string {
	switch c.Kind {
	case peerv1.CommandKind_READ_COMMAND:
		return "read"
	case peerv1.CommandKind_WRITE_COMMAND:
		return "write(" + notation.Value(c.Present, c.Value) + ")"
	}
	return notation.Call(c.Function, c.Args)
}

func describeState(s *peerv1.KeyState) string {
	text := describeRegister(s.GetPrevious()) + fmt.Sprintf(" after %d rmws", s.Count)
	for _, e := range s.Executed {
		text += " " + instanceName(e.Id)
	}
	return "(" + text + ")"
}

func describeRegister(r *peerv1.RegisterRecord) string {
	if r == nil {
		return "absent"
	}
	return notation.Value(r.Present, r.Value) + " at " + notation.Tag(r.Timestamp, r.Writer, r.Rmws)
}

func describeTransfer(t *peerv1.Transfer) string {
	if t == nil {
		return ""
	}
	var parts []string
	if t.Member != 0 {
		parts = append(parts, fmt.Sprintf("member %s, incarnation %d", notation.Member(view.MemberID(t.Member)), t.Incarnation))
	}
	if len(t.From) > 0 {
		parts = append(parts, fmt.Sprintf("behind %q", t.From))
	}
	for _, r := range t.Records {
		parts = append(parts, describeRecord(r.Key, r.Value))
	}
	if n := len(t.Prints); n > 0 {
		parts = append(parts, fmt.Sprintf("has %d of the records", n/16))
	}
	if t.Compared > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes left out", t.Compared))
	}
	if len(t.Until) > 0 {
		parts = append(parts, "up to "+describeKey(t.Until))
	}
	if t.Last {
		parts = append(parts, "last page")
	}
	return strings.Join(parts, ", ")
}

func describeTransferRecord(r *peerv1.TransferRecord) string {
	parts := []string{"the transfer"}
	for _, s := range r.Sources {
		name := notation.Member(view.MemberID(s.Member))
		switch {
		case s.Done:
			parts = append(parts, "has all of "+name)
		case len(s.After) > 0:
			parts = append(parts, "has what "+name+" holds up to "+describeKey(s.After))
		}
	}
	return strings.Join(parts, ", ")
}

// describeRecord shows a record of a journal. Its key's first byte says what it is; what is not known here
// is shown by its size.
func describeRecord(key, value []byte) string {
	if len(key) == 0 {
		return "a record without a key"
	}
	name := string(key[1:])
	if value == nil {
		return "deletes " + describeKey(key)
	}
	switch key[0] {
	case 'r':
		var r peerv1.RegisterRecord
		if r.UnmarshalVT(value) == nil {
			return fmt.Sprintf("%s = %s", name, describeRegister(&r))
		}
	case 'm':
		if name == "t" {
			var r peerv1.TransferRecord
			if r.UnmarshalVT(value) == nil {
				return describeTransferRecord(&r)
			}
			break
		}
		var r peerv1.MemberRecord
		if r.UnmarshalVT(value) == nil {
			text := fmt.Sprintf("member: incarnation %d, voter %t, knows %v", r.Incarnation, r.Voter, r.Known)
			if r.Epoch > 1 {
				text += fmt.Sprintf(", epoch %d", r.Epoch)
			}
			return text
		}
	case 's':
		var r peerv1.KeyState
		if r.UnmarshalVT(value) == nil {
			return fmt.Sprintf("state of %s: %s", name, describeState(&r))
		}
	case 'i':
		var r peerv1.Message
		if r.UnmarshalVT(value) == nil {
			return "instance: " + describeMessage(&r)
		}
	}
	if text := catalog.DescribeRecord(key, value); text != "" {
		return text
	}
	return fmt.Sprintf("%s of %d bytes", describeKey(key), len(value))
}

// describeKey shows what a record is by its key alone: an instance's holds the writer, the number and the key.
func describeKey(key []byte) string {
	if key[0] == 'i' && len(key) > 17 {
		id := &peerv1.InstanceID{Writer: binary.BigEndian.Uint64(key[1:]), Number: binary.BigEndian.Uint64(key[9:])}
		return fmt.Sprintf("instance %s of %s", instanceName(id), key[17:])
	}
	if text := catalog.DescribeKey(key); text != "" {
		return text
	}
	return fmt.Sprintf("record %q", key)
}

func describeOperation(op register.Operation) string {
	switch op.Kind {
	case register.Read:
		if op.Regular {
			return "regular read " + op.Key
		}
		return "read " + op.Key
	case register.Write:
		return fmt.Sprintf("write %s = %s", op.Key, notation.Value(op.Value.Present(), op.Value))
	case register.Fence:
		return "fence"
	}
	return fmt.Sprintf("rmw %s %s", op.Key, notation.Call(op.Call.Function, op.Call.Args))
}

func (w *world) describeCompletion(c protocol.Completion) string {
	r := c.Result
	tag := notation.Tag(r.Carstamp.Timestamp, uint64(r.Carstamp.Writer), r.Carstamp.RMWs)
	text := fmt.Sprintf("operation %d is %s", c.Handle, r.Status)
	switch {
	case r.Status != register.OK:
		text += ": " + r.Message
	case w.operations[c.Handle-1].operation.Kind == register.Fence:
	case w.operations[c.Handle-1].operation.Kind == register.Write:
		text += ", at " + tag
	default:
		text += ", " + notation.Value(r.Value.Present(), r.Value) + " at " + tag
	}
	if r.RoundTrips == 1 {
		text += ", 1 round trip"
	} else {
		text += fmt.Sprintf(", %d round trips", r.RoundTrips)
	}
	if r.Fast {
		text += ", fast"
	}
	if r.Depends {
		text += ", depended on"
	}
	return text
}
