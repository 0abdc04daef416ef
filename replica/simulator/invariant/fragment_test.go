package invariant

import (
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// of is a value of key k that the n-th disk of member 1 has written, and metadata what registers have of it.
func of(n uint32) value { return value{"k", register.NewWriter(1, n, 1), 7} }

func metadata(v value) []byte {
	record := v.record(known)
	return append(append([]byte{0xc1, 1}, record[len(record)-valueTail:]...), make([]byte, 8+16)...)
}

func fragmentRecord(state peerv1.FragmentState) *peerv1.FragmentRecord {
	return &peerv1.FragmentRecord{State: state}
}

func piecesOf(indexes ...uint32) *peerv1.FragmentPieces {
	all := &peerv1.FragmentPieces{}
	for _, i := range indexes {
		all.Pieces = append(all.Pieces, &peerv1.FragmentPiece{Index: i})
	}
	return all
}

const (
	isHeld = peerv1.FragmentState_FRAGMENT_HELD
	ended  = peerv1.FragmentState_FRAGMENT_WRITTEN
	wanted = peerv1.FragmentState_FRAGMENT_WANTED
	gone   = peerv1.FragmentState_FRAGMENT_GONE
)

func TestFragmentsDoNotGoBack(t *testing.T) {
	first, second := string(of(1).record(known)), string(of(2).record(known))
	data := string(of(2).record(pieces))
	for name, c := range map[string]struct {
		disk disk
		key  string
		then record
		want string
	}{
		"it is known to be written":    {disk{first: fragmentRecord(isHeld)}, first, fragmentRecord(ended), ""},
		"that is forgotten":            {disk{first: fragmentRecord(ended)}, first, fragmentRecord(isHeld), "FRAGMENT_HELD"},
		"it is wanted again":           {disk{first: fragmentRecord(isHeld)}, first, fragmentRecord(wanted), "FRAGMENT_WANTED"},
		"it is made":                   {disk{first: fragmentRecord(wanted)}, first, fragmentRecord(isHeld), ""},
		"it goes":                      {disk{"m": &peerv1.MemberRecord{Incarnation: 2}, second: fragmentRecord(ended)}, second, nil, ""},
		"of an earlier disk":           {disk{"m": &peerv1.MemberRecord{Incarnation: 2}, first: fragmentRecord(ended)}, first, fragmentRecord(gone), ""},
		"that is not remembered":       {disk{"m": &peerv1.MemberRecord{Incarnation: 2}, first: fragmentRecord(ended)}, first, nil, "earlier disk"},
		"its own fragment":             {disk{second: fragmentRecord(isHeld)}, data, piecesOf(0), ""},
		"another one's":                {disk{second: fragmentRecord(isHeld)}, data, piecesOf(1), "not its own"},
		"those that it is made of":     {disk{second: fragmentRecord(wanted)}, data, piecesOf(2, 1), ""},
		"one that nothing is known of": {disk{}, data, piecesOf(0), "does not know"},
	} {
		m := protocol.Mutation{Key: []byte(c.key)}
		if c.then != nil {
			m.Value = encoded(t, c.then)
		}
		var r Run
		r.Persists(speaker(1), c.disk.all(t), protocol.Batch{Mutations: []protocol.Mutation{m}})
		expect(t, name, &r, c.want)
	}
}

func TestMetadataRestsOnFragments(t *testing.T) {
	v := of(1)
	code := func(key []byte) ([]byte, bool) { return []byte{1}, string(key) == codeKey }
	for name, c := range map[string]struct {
		holders []view.MemberID
		want    string
	}{
		"of two":  {[]view.MemberID{1, 3}, ""},
		"of one":  {[]view.MemberID{1}, "only the disks of members [1]"},
		"of none": {nil, "only the disks of members []"},
	} {
		disks := func(id view.MemberID) Holder {
			return Holder{Has: func(key []byte) ([]byte, bool) {
				for _, h := range c.holders {
					if h == id && string(key) == string(v.record(known)) {
						return nil, true
					}
				}
				return code(key)
			}}
		}
		var r Run
		r.Leaves(speaker(1), &peerv1.Message{
			Kind: peerv1.Kind_GUS_WRITE, Key: []byte("k"), Timestamp: 3, Writer: uint64(v.writer), Present: true, Value: metadata(v),
			Gus: &peerv1.Gus{Origin: 3},
		}, disks)
		expect(t, name, &r, c.want)
	}
}

func TestFragmentsAtRest(t *testing.T) {
	v, old := of(1), of(2)
	register := func(timestamp uint64, v value) *peerv1.GusRecord {
		return &peerv1.GusRecord{Timestamp: timestamp, Writer: 1, Present: true, Value: metadata(v)}
	}
	has := func(d disk) map[string][]byte {
		records := map[string][]byte{codeKey: {3}}
		for key, r := range d {
			records[key] = encoded(t, r)
		}
		return records
	}
	x := func(v value) string { return string(v.record(known)) }
	for name, c := range map[string]struct {
		first, second disk
		want          string
	}{
		"all is done": {
			disk{ofKey(undecided): register(2, v), x(v): fragmentRecord(ended)},
			disk{ofKey(undecided): register(2, v), x(v): fragmentRecord(isHeld)}, "",
		},
		"a fragment is missing": {
			disk{ofKey(undecided): register(2, v), x(v): fragmentRecord(ended)},
			disk{ofKey(undecided): register(2, v)}, "member 2 has no fragment",
		},
		"of an older value": {
			disk{ofKey(undecided): register(2, v), x(v): fragmentRecord(ended)},
			disk{ofKey(undecided): register(1, old)}, "",
		},
		"a fragment is left": {
			disk{"m": &peerv1.MemberRecord{Incarnation: 2}, ofKey(undecided): register(2, v), x(v): fragmentRecord(ended)},
			disk{ofKey(undecided): register(2, v), x(v): fragmentRecord(isHeld), x(old): fragmentRecord(isHeld)}, "member 2 keeps",
		},
		"what came of its value is not known": {
			disk{
				"m": &peerv1.MemberRecord{Incarnation: 2}, ofKey(undecided): register(2, v), x(v): fragmentRecord(ended),
				x(old): fragmentRecord(peerv1.FragmentState_FRAGMENT_SUBMITTED),
			},
			disk{ofKey(undecided): register(2, v), x(v): fragmentRecord(isHeld), x(old): fragmentRecord(isHeld)}, "",
		},
	} {
		got := Unrested(&three, []Resting{{1, has(c.first)}, {2, has(c.second)}})
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWhoHasNoFragmentKnowsWhoRebuilds(t *testing.T) {
	fetch := &peerv1.Message{
		Kind: peerv1.Kind_FRAGMENT_FETCH, Op: 9, Key: []byte("k"), Incarnation: 2,
		Fragment: &peerv1.Fragment{Rebuilding: true},
	}
	read := fetch.CloneVT()
	read.Fragment.Rebuilding = false
	for name, c := range map[string]struct {
		asks *peerv1.Message
		disk uint32 // of the one that asks, as the other's disk has it
		want string
	}{
		"known":      {fetch, 2, ""},
		"not known":  {fetch, 1, "adopted disk 2 of member 2, and has 1"},
		"for a read": {read, 1, ""},
	} {
		var r Run
		r.ask(speaker(2), c.asks)
		d := disk{disksKey: &peerv1.MemberRecord{Members: []uint32{1, 2, 3}, Known: []uint32{1, c.disk, 1}}}
		r.Says(speaker(1), 2, &peerv1.Message{
			Kind: peerv1.Kind_FRAGMENT_FETCHED, Op: 9, Key: []byte("k"), Fragment: &peerv1.Fragment{Absent: true},
		}, d.has(t))
		expect(t, name, &r, c.want)
	}
}
