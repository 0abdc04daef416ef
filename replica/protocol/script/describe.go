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
	var parts notation.Parts
	own := catalog.MessagesOf(m)
	if m.Kind != peerv1.Kind_KIND_UNSPECIFIED { // an instance's record is a message without a kind
		parts = append(parts, kindName(own, m))
	}
	parts.Add(m.Op != 0, "%s", notation.Operation(m.Op))
	parts.Add(len(m.Key) > 0, "%s", m.Key)
	switch tag := notation.Tag(m.Timestamp, m.Writer, m.Rmws); {
	case own.NoCarstamp:
	case m.Same:
		parts.Add(true, "same, at %s", tag)
	case m.Kind == peerv1.Kind_READ2 && len(m.After) > 0:
	case carriesValue(m.Kind) || m.Present:
		parts.Add(true, "= %s at %s", notation.Value(m.Present, m.Value), tag)
	default:
		parts.Add(tag != "0" || m.Kind == peerv1.Kind_WRITE1_REPLY, "at %s", tag)
	}
	parts.Add(len(m.After) > 0, "after %s", describeAfter(m.After))
	if own.Describe != nil {
		parts.Say(own.Describe(m))
	}
	if m.Instance != nil {
		parts = append(parts, describeInstance(m.Instance))
	}
	parts.Say(describeTransfer(m.Transfer))
	parts.Add(m.Epoch > 1, "(epoch %d)", m.Epoch)
	parts.Add(m.Incarnation > 1, "(incarnation %d)", m.Incarnation)
	parts.Add(len(m.Known) > 0, "(knows %v)", m.Known)
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
	return k == peerv1.Kind_READ1_REPLY || k == peerv1.Kind_READ2 || k == peerv1.Kind_WRITE2
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
	parts := notation.Parts{instanceName(i.Id)}
	parts.Add(i.Status != peerv1.Status_NONE, "%s", strings.ToLower(i.Status.String()))
	parts.Add(i.Ballot != 0 || i.AcceptedBallot != 0, "ballot=%d accepted=%d", i.Ballot, i.AcceptedBallot)
	for _, c := range i.Commands {
		parts = append(parts, describeOrdered(c))
	}
	var deps []string
	for _, d := range i.Deps {
		deps = append(deps, instanceName(d))
	}
	parts.Add(len(deps) > 0, "deps=%s", strings.Join(deps, ","))
	parts.Add(i.Seq > 0, "seq=%d", i.Seq)
	parts.Add(i.Alone, "alone")
	parts.Add(i.Agreed, "agreed")
	for _, a := range i.Answers {
		parts.Add(true, "answer=%s", notation.Answer(a))
	}
	parts.Add(i.State != nil, "state=%s", describeState(i.State))
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
	parts := notation.Parts{fmt.Sprintf("%s after %d rmws", describeRegister(s.GetPrevious()), s.GetCount())}
	for _, e := range s.GetExecuted() {
		parts = append(parts, instanceName(e.Id))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

func describeRegister(r *peerv1.RegisterRecord) string {
	if r == nil {
		return "absent"
	}
	return notation.Value(r.Present, r.Value) + " at " + notation.Tag(r.Timestamp, r.Writer, r.Rmws)
}

func describeTransfer(t *peerv1.Transfer) string {
	var parts notation.Parts
	parts.Add(t.GetMember() != 0, "member %s, incarnation %d",
		notation.Member(view.MemberID(t.GetMember())), t.GetIncarnation())
	parts.Add(len(t.GetFrom()) > 0, "behind %q", t.GetFrom())
	for _, r := range t.GetRecords() {
		parts = append(parts, describeRecord(r.Key, r.Value))
	}
	parts.Add(len(t.GetPrints()) > 0, "has %d of the records", len(t.GetPrints())/16)
	parts.Add(t.GetCompared() > 0, "%d bytes left out", t.GetCompared())
	if until := t.GetUntil(); len(until) > 0 {
		parts.Add(true, "up to %s", describeKey(until))
	}
	parts.Add(t.GetLast(), "last page")
	return strings.Join(parts, ", ")
}

func describeTransferRecord(r *peerv1.TransferRecord) string {
	parts := notation.Parts{"the transfer"}
	for _, s := range r.Sources {
		name := notation.Member(view.MemberID(s.Member))
		parts.Add(s.Done, "has all of %s", name)
		if !s.Done && len(s.After) > 0 {
			parts.Add(true, "has what %s holds up to %s", name, describeKey(s.After))
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
	if value == nil {
		return "deletes " + describeKey(key)
	}
	var (
		register peerv1.RegisterRecord
		transfer peerv1.TransferRecord
		member   peerv1.MemberRecord
		state    peerv1.KeyState
		instance peerv1.Message
	)
	switch kind, name := key[0], string(key[1:]); {
	case kind == 'r' && register.UnmarshalVT(value) == nil:
		return fmt.Sprintf("%s = %s", name, describeRegister(&register))
	case kind == 'm' && name == "t" && transfer.UnmarshalVT(value) == nil:
		return describeTransferRecord(&transfer)
	case kind == 'm' && name != "t" && member.UnmarshalVT(value) == nil:
		parts := notation.Parts{
			fmt.Sprintf("member: incarnation %d, voter %t, knows %v", member.Incarnation, member.Voter, member.Known),
		}
		parts.Add(member.Epoch > 1, "epoch %d", member.Epoch)
		return strings.Join(parts, ", ")
	case kind == 's' && state.UnmarshalVT(value) == nil:
		return fmt.Sprintf("state of %s: %s", name, describeState(&state))
	case kind == 'i' && len(value) == 0:
		return describeKey(key) + ": empty"
	case kind == 'i' && instance.UnmarshalVT(value) == nil:
		return "instance: " + describeMessage(&instance)
	}
	if text := catalog.DescribeRecord(key, value); text != "" {
		return text
	}
	return fmt.Sprintf("%s of %d bytes", describeKey(key), len(value))
}

// describeKey shows what a record is by its key alone.
func describeKey(key []byte) string {
	if key[0] == 'i' && len(key) == 5 {
		return fmt.Sprintf("slot %d of instances", binary.BigEndian.Uint32(key[1:]))
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
	parts := notation.Parts{fmt.Sprintf("operation %d is %s", c.Handle, r.Status)}
	switch kind := w.operations[c.Handle-1].operation.Kind; {
	case r.Status != register.OK:
		parts[0] += ": " + r.Message
	case kind == register.Write:
		parts.Add(true, "at %s", tag)
	case kind != register.Fence:
		parts.Add(true, "%s at %s", notation.Value(r.Value.Present(), r.Value), tag)
	}
	parts.Add(r.RoundTrips == 1, "1 round trip")
	parts.Add(r.RoundTrips != 1, "%d round trips", r.RoundTrips)
	parts.Add(r.Fast, "fast")
	parts.Add(r.Depends, "depended on")
	return strings.Join(parts, ", ")
}
