package invariant

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// What members have of fragments: of each value what is known, and pieces of it.
const (
	known  = 'x' // FragmentRecord
	pieces = 'y' // FragmentPieces
)

// codeKey is where a disk has how many fragments restore a value, if values are stored so.
const codeKey = string(known) + "k"

// disksKey is where a disk has which disks members rebuild their fragments on.
const disksKey = string(known)

// value names a large value of a register.
type value struct {
	key    string
	writer register.Writer
	number uint64
}

func (v value) String() string {
	return fmt.Sprintf("value %d of %v of key %q", v.number, v.writer, v.key)
}

// record is the key of a record of a value.
func (v value) record(prefix byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{prefix}, uint32(len(v.key)))
	b = binary.BigEndian.AppendUint64(append(b, v.key...), uint64(v.writer))
	return binary.BigEndian.AppendUint64(b, v.number)
}

// valueHead and valueTail are how many bytes of the key of a value's record come before and behind that of its register.
const valueHead, valueTail = 1 + 4, 8 + 8

// valueOf reads the key of a record of a value, or reports that it is none.
func valueOf(key []byte) (value, bool) {
	if len(key) < valueHead+valueTail || key[0] != known && key[0] != pieces ||
		len(key) != valueHead+valueTail+int(binary.BigEndian.Uint32(key[1:])) {
		return value{}, false
	}
	end := len(key) - valueTail
	return value{
		string(key[valueHead:end]), register.Writer(binary.BigEndian.Uint64(key[end:])), binary.BigEndian.Uint64(key[end+8:]),
	}, true
}

// valueIn is the value that a message is about.
func valueIn(m *peerv1.Message) value {
	return value{string(m.Key), register.Writer(m.Fragment.GetWriter()), m.Fragment.GetNumber()}
}

// marker begins metadata, and small values that would be taken for that (package layered).
const marker = 0xc1

// escaped is the value that one stands for which begins with the marker, if it is no metadata.
func escaped(v []byte) (register.Value, bool) {
	small, is := bytes.CutPrefix(v, []byte{marker, 0})
	return small, is
}

// referred is the value that metadata stands for, if a register's value is that.
func referred(key, v []byte) (value, bool) {
	if len(v) != 2+valueTail+8+16 || v[0] != marker || v[1] != 1 {
		return value{}, false
	}
	writer, number := binary.BigEndian.Uint64(v[2:]), binary.BigEndian.Uint64(v[10:])
	return value{string(key), register.Writer(writer), number}, true
}

// holdFragment holds a record of a value that becomes durable against what the disk had before it.
func (r *Run) holdFragment(s Speaker, v value, m protocol.Mutation, before []byte, disk Records) {
	if uint32(s.ID) == v.writer.Member() {
		r.begin(v)
	} else if !r.begun[v] {
		r.broken(s.ID, "has something of %v, which nobody has begun", v)
	}
	if m.Key[0] == known {
		if gone := m.Value == nil || stateOf(m.Value) == peerv1.FragmentState_FRAGMENT_GONE; gone && before != nil &&
			stateOf(before) == peerv1.FragmentState_FRAGMENT_WANTED {
			r.abandons(s, v, disk)
		}
		if why := fragmentLacks(s.ID, v, m.Value, before, disk); why != "" {
			r.broken(s.ID, "takes back what its disk had of %v: it has %s", v, why)
		}
	} else if raw, ok := disk(m.Key); ok {
		if why := strange(s, v, raw, disk); why != "" {
			r.broken(s.ID, "stores of %v %s", v, why)
		}
	}
}

// fragmentLacks is what a batch takes back of what a disk knew of a value. A fragment that is here stays one until it
// goes, and what is known of its metadata stays known. Of a value of the member's own lost disk it stays known that it
// is over: of this disk's own values alone does no record mean that.
func fragmentLacks(who view.MemberID, of value, now, before []byte, disk Records) string {
	was, is := stateOf(before), stateOf(now)
	switch {
	case before == nil:
	case now == nil:
		raw, _ := disk([]byte{own})
		if of.writer.Member() == uint32(who) && uint64(of.writer.Incarnation()) < max(field.Number(raw, 1), 1) {
			return "nothing, and it is of an earlier disk"
		}
	case was == peerv1.FragmentState_FRAGMENT_WANTED || is == peerv1.FragmentState_FRAGMENT_GONE:
	case is < was, is == peerv1.FragmentState_FRAGMENT_WANTED:
		return fmt.Sprintf("%v, not %v", is, was)
	}
	return ""
}

func stateOf(raw []byte) peerv1.FragmentState { return peerv1.FragmentState(field.Number(raw, 1)) }

// strange says what is wrong with the fragments of a value that a disk has: they are the member's own alone, unless it
// is to be made of them; then they are too few for that.
func strange(s Speaker, of value, now []byte, disk Records) string {
	raw, ok := disk(of.record(known))
	if !ok {
		return "fragments, and does not know of the value"
	}
	var indexes []uint64
	_ = field.Visit(now, func(_ int, _ uint64, part []byte) { indexes = append(indexes, field.Number(part, 1)) })
	wanted := stateOf(raw) == peerv1.FragmentState_FRAGMENT_WANTED
	switch {
	case wanted && enough(s.View, indexes, disk):
		return fmt.Sprintf("fragments %d, and does not make its own of them", indexes)
	case !wanted && !slices.Equal(indexes, []uint64{uint64(s.ID) - 1}):
		return fmt.Sprintf("fragments %d, not its own alone", indexes)
	}
	return ""
}

// begin notes a value whose fragments are handed out.
func (r *Run) begin(v value) {
	if r.begun == nil {
		r.begun = map[value]bool{}
	}
	r.begun[v] = true
}

// store holds it that the metadata of a large value is written once enough disks have their fragments of it, on both
// sides of a change: as many as are left when those are lost that may be.
func (r *Run) store(s Speaker, m *peerv1.Message, disks Disks) {
	v, ok := referred(m.Key, m.Value)
	if m.Kind != peerv1.Kind_GUS_WRITE || !ok || r.stored[v] || r.Broken != nil {
		return
	}
	code, ok := disks(s.ID).Has([]byte(codeKey))
	if !ok || len(code) != 1 {
		return // what looks like metadata is a value of a client
	}
	needs := view.Fragments{Data: int(code[0]), Faults: s.Losses}
	for _, side := range s.View.Sides() {
		var have []view.MemberID
		for _, member := range side.Members {
			disk := disks(member.ID)
			if raw, ok := disk.Has(v.record(known)); disk.Excused || ok && stateOf(raw) != peerv1.FragmentState_FRAGMENT_WANTED {
				have = append(have, member.ID)
			}
		}
		if len(have) < needs.Holders(side) {
			r.broken(s.ID, "writes the metadata of %v, and only the disks of members %v have their fragments", v, have)
		}
	}
	if r.stored == nil {
		r.stored = map[value]bool{}
	}
	r.stored[v] = true
}
