package invariant

import (
	"fmt"
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
)

// Resting is what a member has on its disk while all is quiet.
type Resting struct {
	ID      view.MemberID
	Records map[string][]byte
}

// Unrested says what members of a view have not done yet of what they do without being asked once all is quiet, or
// nothing: each one whose register has a large value for good makes its fragment, and lets those go whose values are
// over.
func Unrested(v *view.View, all []Resting) string {
	if !slices.ContainsFunc(all, func(d Resting) bool { return d.Records[codeKey] != nil }) {
		return "" // values are stored whole
	}
	latest := map[string]register.Carstamp{} // by key; never ranged over
	disks := make([]fragments, len(all))
	for i, d := range all {
		disks[i] = fragmentsOf(d)
		for _, key := range disks[i].keys {
			if c := disks[i].registers[key].carstamp; latest[key].Less(c) {
				latest[key] = c
			}
		}
	}
	for _, d := range disks {
		for _, key := range d.keys {
			r := d.registers[key]
			of, large := referred([]byte(key), r.values[0])
			if state, here := d.known[of]; large && r.final && r.carstamp == latest[key] &&
				(!here || state == peerv1.FragmentState_FRAGMENT_WANTED) {
				return fmt.Sprintf("member %d has no fragment of %v, which is its register's", d.ID, of)
			}
		}
		for _, of := range d.values {
			state := d.known[of]
			if state == peerv1.FragmentState_FRAGMENT_GONE || state == peerv1.FragmentState_FRAGMENT_WANTED || d.refers(of) {
				continue
			}
			for _, other := range disks {
				writer := uint32(other.ID) == of.writer.Member()
				asked := writer || d.ID == other.ID || v.Index(view.MemberID(of.writer.Member())) < 0
				if asked && other.over(of) {
					return fmt.Sprintf("member %d keeps its fragment of %v, and member %d knows that it is over", d.ID, of, other.ID)
				}
			}
		}
	}
	return ""
}

// fragments is what a disk has of registers, and of large values.
type fragments struct {
	Resting
	number    uint64   // of the member's disks
	keys      []string // of registers, in order
	registers map[string]aRegister
	values    []value // in the order of their records
	known     map[value]peerv1.FragmentState
}

// aRegister is what a member has of a register.
type aRegister struct {
	carstamp register.Carstamp
	final    bool
	values   [][]byte // the register's first, then those that were voted for
}

// registerOf reads a GusRecord. Of one that is damaged, whoever uses it says so.
func registerOf(raw []byte) (r aRegister) {
	var record peerv1.GusRecord
	_ = record.UnmarshalVT(raw)
	is := recordOfGus(raw)
	r.carstamp, r.final = is.tag(), is.final()
	r.values = append(r.values, record.Value)
	for _, w := range record.Writes {
		r.values = append(r.values, w.Value)
	}
	return r
}

func fragmentsOf(d Resting) fragments {
	f := fragments{
		Resting: d, number: max(field.Number(d.Records[string([]byte{own})], 1), 1),
		registers: map[string]aRegister{}, known: map[value]peerv1.FragmentState{},
	}
	for _, key := range slices.Sorted(maps.Keys(d.Records)) {
		raw := d.Records[key]
		if key[0] == undecided {
			f.keys = append(f.keys, key[1:])
			f.registers[key[1:]] = registerOf(raw)
		} else if of, ok := valueOf([]byte(key)); ok && key[0] == known {
			f.values = append(f.values, of)
			f.known[of] = stateOf(raw)
		}
	}
	return f
}

// refers reports whether a register, or what was voted for, is a value.
func (f *fragments) refers(of value) bool {
	return slices.ContainsFunc(f.registers[of.key].values, func(v []byte) bool {
		is, large := referred([]byte(of.key), v)
		return large && is == of
	})
}

// over reports whether a member knows that no read that begins from now on finds a value: it was written, and the
// register has something else for good; or it is of this disk, and its metadata was never written.
func (f *fragments) over(of value) bool {
	state, ok := f.known[of]
	mine := of.writer.Member() == uint32(f.ID) && uint64(of.writer.Incarnation()) == f.number
	switch {
	case ok && state == peerv1.FragmentState_FRAGMENT_GONE:
		return true
	case ok && state == peerv1.FragmentState_FRAGMENT_WRITTEN:
		return f.registers[of.key].final && !f.refers(of)
	}
	return mine && (!ok || state == peerv1.FragmentState_FRAGMENT_HELD)
}
