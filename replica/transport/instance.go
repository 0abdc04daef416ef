package transport

import (
	"google.golang.org/protobuf/encoding/protowire"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/slab"
)

// instanceField is the number of Message.instance.
const instanceField = 14

// instances decodes what messages tell of instances. The parts of many messages share an allocation: what one names
// would be ten allocations otherwise, half of those of an rmw.
type instances struct {
	parts    slab.Of[peerv1.Instance]
	ids      slab.Of[peerv1.InstanceID]
	commands slab.Of[peerv1.Command]
	answers  slab.Of[peerv1.Answer]

	deps     slab.List[*peerv1.InstanceID]
	ordered  slab.List[*peerv1.Command]
	answered slab.List[*peerv1.Answer]
}

// decode reads an encoded message into an empty one, as the generated code does, which reads all that is not usual. The
// message may alias the data.
func (d *instances) decode(data []byte, m *peerv1.Message) error {
	if !tellsOfInstance(data) {
		return m.UnmarshalVTUnsafe(data)
	}
	begin, value, end := findInstance(data)
	if value == nil {
		return m.UnmarshalVTUnsafe(data)
	}
	part := d.part(value)
	if part == nil {
		return m.UnmarshalVTUnsafe(data)
	}
	if err := m.UnmarshalVTUnsafe(data[:begin:begin]); err != nil {
		return err
	}
	m.Instance = part
	return m.UnmarshalVTUnsafe(data[end:])
}

// tellsOfInstance reports whether an encoded message is of a kind that has an instance, in most cases. The kind is the
// first field, so that others, such as a write's, are not looked through.
func tellsOfInstance(data []byte) bool {
	const kindField = 1<<3 | byte(protowire.VarintType)
	if len(data) < 2 || data[0] != kindField {
		return false
	}
	kind := peerv1.Kind(data[1]) // of a larger one, which is longer, this is none of those
	return kind >= peerv1.Kind_PRE_ACCEPT && kind <= peerv1.Kind_NACK
}

// findInstance is where the field of the instance begins and ends, and what is in it; nil: there is none, or not just
// one.
func findInstance(data []byte) (begin int, value []byte, end int) {
	for at := 0; at < len(data); {
		number, kind, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			return 0, nil, 0
		}
		n := protowire.ConsumeFieldValue(number, kind, data[at+tag:])
		if n < 0 {
			return 0, nil, 0
		}
		if number == instanceField {
			if kind != protowire.BytesType || value != nil {
				return 0, nil, 0
			}
			begin, end = at, at+tag+n
			value, _ = protowire.ConsumeBytes(data[at+tag:])
		}
		at += tag + n
	}
	return begin, value, end
}

// part decodes an instance; nil: there is something unusual in it.
func (d *instances) part(data []byte) *peerv1.Instance {
	i := d.parts.New()
	ok := true
	for len(data) > 0 && ok {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			ok = false
			break
		}
		data = data[n:]
		switch kind {
		case protowire.VarintType:
			var value uint64
			if value, n = protowire.ConsumeVarint(data); n >= 0 {
				ok = setNumber(i, number, value)
			}
		case protowire.BytesType:
			var value []byte
			if value, n = protowire.ConsumeBytes(data); n >= 0 {
				ok = d.setPart(i, number, value[:len(value):len(value)])
			}
		default:
			n = -1
		}
		if ok = ok && n >= 0; ok {
			data = data[n:]
		}
	}
	i.Deps, i.Commands, i.Answers = d.deps.Take(), d.ordered.Take(), d.answered.Take()
	if !ok {
		return nil
	}
	return i
}

func setNumber(i *peerv1.Instance, number protowire.Number, value uint64) bool {
	switch number {
	case 2:
		i.Ballot = value
	case 3:
		i.AcceptedBallot = value
	case 4:
		i.Status = peerv1.Status(value)
	case 7:
		i.Agreed = value != 0
	case 10:
		i.Seq = value
	case 11:
		i.Alone = value != 0
	default:
		return false
	}
	return true
}

func (d *instances) setPart(i *peerv1.Instance, number protowire.Number, value []byte) bool {
	switch number {
	case 1:
		if i.Id != nil {
			return false
		}
		i.Id = d.ids.New()
		return i.Id.UnmarshalVTUnsafe(value) == nil
	case 5:
		id := d.ids.New()
		d.deps.Add(id)
		return id.UnmarshalVTUnsafe(value) == nil
	case 6:
		c := d.commands.New()
		d.ordered.Add(c)
		return c.UnmarshalVTUnsafe(value) == nil
	case 8:
		a := d.answers.New()
		d.answered.Add(a)
		return a.UnmarshalVTUnsafe(value) == nil
	case 9:
		if i.State != nil {
			return false
		}
		i.State = &peerv1.KeyState{}
		return i.State.UnmarshalVTUnsafe(value) == nil
	}
	return false
}
