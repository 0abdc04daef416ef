package layered

import (
	"bytes"
	"errors"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/view"
)

// disk is what a member's disk has of fragments: of each value what is known, and pieces of it.
type disk struct{ *base.Base }

// known returns what this member knows of its fragment of a value, if anything.
func (d *disk) known(key []byte, n name) (peerv1.FragmentState, bool) {
	raw, ok := d.Journal.Get(recordKey(recordPrefix, key, n))
	if !ok {
		return 0, false
	}
	return d.state(raw), true
}

func (d *disk) state(raw []byte) peerv1.FragmentState {
	var r peerv1.FragmentRecord
	if err := r.UnmarshalVT(raw); err != nil {
		d.Fault("a record of a fragment is damaged; replace this member's disk: %w", err)
	}
	return r.State
}

// mark notes something of a value of which there is a record.
func (d *disk) mark(key []byte, n name, state peerv1.FragmentState) {
	if _, ok := d.known(key, n); ok {
		d.put(recordKey(recordPrefix, key, n), &peerv1.FragmentRecord{State: state})
	}
}

// keep stores a fragment, or those of others that one is to be rebuilt of.
func (d *disk) keep(key []byte, n name, state peerv1.FragmentState, pieces ...*peerv1.FragmentPiece) {
	d.put(recordKey(recordPrefix, key, n), &peerv1.FragmentRecord{State: state})
	if len(pieces) > 0 {
		d.put(recordKey(piecesPrefix, key, n), &peerv1.FragmentPieces{Pieces: pieces})
	}
}

func (d *disk) put(key []byte, record interface{ MarshalVT() ([]byte, error) }) {
	d.Journal.Put(key, d.Encode(record, "a record of a fragment", nil))
}

// pieces returns what is here of a value.
func (d *disk) pieces(key []byte, n name) []*peerv1.FragmentPiece {
	raw, ok := d.Journal.Get(recordKey(piecesPrefix, key, n))
	if !ok {
		return nil
	}
	var all peerv1.FragmentPieces
	if err := all.UnmarshalVT(raw); err != nil {
		d.Fault("a fragment of key %q is damaged; replace this member's disk: %w", key, err)
	}
	return all.Pieces
}

// visit visits the records of fragments behind one, until visit returns false.
func (d *disk) visit(after []byte, visit func(record, key []byte, n name, state peerv1.FragmentState) bool) {
	if len(after) == 0 {
		after = disksKey
	}
	for record, raw := range d.Journal.Kind(after) {
		key, n, ok := readRecordKey(record)
		if ok && !visit(bytes.Clone(record), bytes.Clone(key), n, d.state(raw)) {
			return
		}
	}
}

// recallDisks learns the disks that rebuilding members have asked with.
func (d *disk) recallDisks() {
	raw, ok := d.Journal.Get(disksKey)
	if !ok {
		return
	}
	var r peerv1.MemberRecord
	err := bounds.Decode(raw, &r, bounds.Record)
	if err == nil && len(r.Known) != len(r.Members) {
		err = errors.New("it has not one disk for each member")
	}
	if err != nil {
		d.Fault("the record of the disks of rebuilding members is damaged; replace this member's disk: %w", err)
		return
	}
	for i, id := range r.Members {
		d.Incarnations.Learn(view.MemberID(id), view.Incarnation(r.Known[i]))
	}
}

// saveDisks notes them.
func (d *disk) saveDisks() {
	r := &peerv1.MemberRecord{}
	for _, m := range d.Config.View.Members {
		r.Members, r.Known = append(r.Members, uint32(m.ID)), append(r.Known, uint32(d.Incarnations.Of(m.ID)))
	}
	d.put(disksKey, r)
}
