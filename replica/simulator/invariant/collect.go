package invariant

import (
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// wants names a value that a disk of a member has no fragment of and is to have one.
type wants struct {
	value
	who   view.MemberID
	shard int
	disk  string
}

// hearFragment notes who has told a member whether it has a fragment of a value.
func (r *Run) hearFragment(s Speaker, from view.MemberID, m *peerv1.Message) {
	w := wants{valueIn(m), s.ID, s.Shard, s.Disk}
	if r.told == nil {
		r.told, r.absent = map[wants][]view.MemberID{}, map[question][]view.MemberID{}
	}
	if m.Fragment.GetAbsent() {
		q := question{s.ID, s.Shard, m.Op, m.Kind}
		r.absent[q] = append(r.absent[q], from)
	}
	if !slices.Contains(r.told[w], from) {
		r.told[w] = append(r.told[w], from)
	}
}

// BeginsAnew holds it that a read which begins anew at an answer was told by so many that they have no fragment of the
// value that it is over, or that too few are left.
func (r *Run) BeginsAnew(s Speaker, m *peerv1.Message, has Records) {
	code, coded := has([]byte(codeKey))
	if r.Broken != nil || !coded || len(code) != 1 {
		return
	}
	// It may have had none itself as the fetch began, and has one since.
	absent := append(slices.Clone(r.absent[question{s.ID, s.Shard, m.Op, m.Kind}]), s.ID)
	left := func(side view.View) (n int) {
		for _, member := range side.Members {
			if !slices.Contains(absent, member.ID) {
				n++
			}
		}
		return n
	}
	before, needs := s.View.Before(), view.Fragments{Data: int(code[0]), Faults: s.Losses}
	if left(before) >= needs.Holders(before) && left(*s.View) >= needs.Data {
		r.broken(s.ID, "begins a read of key %q anew, and only members %v have no fragment of %v", m.Key, absent,
			valueIn(m))
	}
}

// abandons holds it that who gives up a fragment that it is to rebuild was told by so many of the others whether they
// have one, itself among them if it votes, that no writer can have counted it: all but those that may be lost.
func (r *Run) abandons(s Speaker, v value, disk Records) {
	before, told := s.View.Before(), r.told[wants{v, s.ID, s.Shard, s.Disk}]
	raw, _ := disk([]byte{own})
	n := 0
	for _, m := range before.Members {
		if m.ID == s.ID && votes(raw) || m.ID != s.ID && slices.Contains(told, m.ID) {
			n++
		}
	}
	if least := before.Size() - (view.Fragments{Faults: s.Losses}).Tolerated(before); n < least {
		r.broken(s.ID, "gives up its fragment of %v, and %d members have told of theirs, not %d", v, n, least)
	}
}

// enough reports whether a disk has so many fragments of others that its own can be made of them.
func enough(v *view.View, indexes []uint64, disk Records) bool {
	code, ok := disk([]byte(codeKey))
	if !ok || len(code) != 1 {
		return false
	}
	most := uint64(code[0]) + 1 // how many fragments the code of this view has
	for _, m := range v.Members {
		most = max(most, uint64(m.ID))
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(indexes)))
	usable := slices.DeleteFunc(distinct, func(i uint64) bool { return i >= most })
	return len(usable) >= int(code[0])
}

// notOver is what a member has that says to another one that a value is over, and by what it has it is not; or nothing.
func notOver(who view.MemberID, v value, has Records) string {
	raw, _ := has(recordKey(undecided, []byte(v.key)))
	if slices.ContainsFunc(registerOf(raw).values, func(b []byte) bool {
		is, large := referred([]byte(v.key), b)
		return large && is == v
	}) {
		return "it in its register"
	}
	raw, ok := has(v.record(known))
	if !ok {
		return "" // it may have gone since
	}
	switch state := stateOf(raw); {
	case state == peerv1.FragmentState_FRAGMENT_SUBMITTED,
		state == peerv1.FragmentState_FRAGMENT_HELD && v.writer.Member() != uint32(who):
		return fmt.Sprint(state)
	}
	return "" // one that has gone may be wanted by now, as others have theirs
}

// noteMetadata notes which large value a tag stands for.
func (r *Run) noteMetadata(m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_GUS_WRITE, peerv1.Kind_GUS_LOCK, peerv1.Kind_GUS_COMMIT:
	default:
		return
	}
	v, large := referred(m.Key, m.Value)
	if !large {
		return
	}
	if r.large == nil {
		r.large = map[tag]value{}
	}
	r.large[tag{string(m.Key), wire.Of(m).Carstamp}] = v
	r.large[tag{string(m.Key), wire.Carstamp(m.Gus.GetOrigin(), m.Writer, 0)}] = v
}

// Marks holds it that who answers the write of a large value has noted that its metadata was written: it is asked one
// day whether the value is over.
func (r *Run) Marks(s Speaker, key string, c register.Carstamp, has Records) {
	v, large := r.large[tag{key, c}]
	if r.Broken != nil || !large || v.writer.Member() != uint32(s.ID) {
		return
	}
	raw, ok := has(v.record(known))
	if state := stateOf(raw); ok && state < peerv1.FragmentState_FRAGMENT_WRITTEN {
		r.broken(s.ID, "answers the write of %v, and has %v", v, state)
	}
}
