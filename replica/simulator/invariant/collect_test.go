package invariant

import (
	"slices"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/view"
)

func TestWhoSaysThatAValueIsOverKnowsThat(t *testing.T) {
	v := of(1)
	x := string(v.record(known))
	refers := &peerv1.GusRecord{Timestamp: 3, Writer: 1, Present: true, Value: metadata(v)}
	for name, c := range map[string]struct {
		disk disk
		want string
	}{
		"nothing is left":            {disk{}, ""},
		"it was written":             {disk{x: fragmentRecord(ended)}, ""},
		"it was never written":       {disk{x: fragmentRecord(isHeld)}, ""},
		"it may be written":          {disk{x: fragmentRecord(peerv1.FragmentState_FRAGMENT_SUBMITTED)}, "SUBMITTED"},
		"it is the register's still": {disk{x: fragmentRecord(ended), ofKey(undecided): refers}, "in its register"},
	} {
		var r Run
		r.Says(speaker(1), 2, &peerv1.Message{
			Kind: peerv1.Kind_FRAGMENT_OVER, Key: []byte("k"),
			Fragment: &peerv1.Fragment{Writer: uint64(v.writer), Number: v.number},
		}, c.disk.has(t))
		expect(t, name, &r, c.want)
	}
}

func TestWhoGivesUpAFragmentWasTold(t *testing.T) {
	v := of(1)
	x := string(v.record(known))
	for name, c := range map[string]struct {
		votes bool
		told  []view.MemberID
		want  string
	}{
		"by both others":         {false, []view.MemberID{1, 3}, ""},
		"by one of them":         {false, []view.MemberID{3}, "1 members have told"},
		"by one twice":           {false, []view.MemberID{3, 3}, "1 members have told"},
		"by one, and it votes":   {true, []view.MemberID{3}, ""},
		"by nobody but it votes": {true, nil, "1 members have told"},
	} {
		var r Run
		r.begin(v)
		for _, from := range c.told {
			r.Hears(speaker(2), from, &peerv1.Message{
				Kind: peerv1.Kind_FRAGMENT_FETCHED, Key: []byte("k"),
				Fragment: &peerv1.Fragment{Writer: uint64(v.writer), Number: v.number, Absent: true},
			})
		}
		d := disk{"m": &peerv1.MemberRecord{Incarnation: 2, Voter: c.votes}, x: fragmentRecord(wanted)}
		r.Persists(speaker(2), d.all(t), protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(x)}}})
		expect(t, name, &r, c.want)
	}
}

func TestEnoughFragmentsAreOnesOfTheCode(t *testing.T) {
	code := func(key []byte) ([]byte, bool) { return []byte{2}, string(key) == codeKey }
	for name, c := range map[string]struct {
		indexes []uint64
		want    bool
	}{
		"two":                            {[]uint64{2, 1}, true},
		"one":                            {[]uint64{2}, false},
		"one twice":                      {[]uint64{2, 2}, false},
		"one, and one that has no place": {[]uint64{2, 7}, false},
	} {
		if got := enough(&three, c.indexes, code); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestWhoAnswersALargeWriteHasNotedIt(t *testing.T) {
	v := of(1)
	x := string(v.record(known))
	for name, c := range map[string]struct {
		disk disk
		want string
	}{
		"it is noted":     {disk{x: fragmentRecord(ended)}, ""},
		"it has gone":     {disk{}, ""},
		"it is not noted": {disk{x: fragmentRecord(peerv1.FragmentState_FRAGMENT_SUBMITTED)}, "SUBMITTED"},
	} {
		var r Run
		r.noteMetadata(&peerv1.Message{
			Kind: peerv1.Kind_GUS_COMMIT, Key: []byte("k"), Timestamp: 4, Writer: uint64(v.writer), Present: true,
			Value: metadata(v), Gus: &peerv1.Gus{Origin: 3},
		})
		r.Marks(speaker(1), "k", wire.Carstamp(4, uint64(v.writer), 0), c.disk.has(t))
		expect(t, name, &r, c.want)
	}
}

func TestReadsBeginAnewForAReason(t *testing.T) {
	v := of(1)
	says := func(absent bool) *peerv1.Message {
		return &peerv1.Message{
			Kind: peerv1.Kind_FRAGMENT_FETCHED, Op: 9, Key: []byte("k"),
			Fragment: &peerv1.Fragment{Writer: uint64(v.writer), Number: v.number, Absent: absent},
		}
	}
	for name, c := range map[string]struct {
		absent []view.MemberID // of three members, one fragment of which restores a value when one is lost
		want   string
	}{
		"two have none": {[]view.MemberID{2, 3}, ""},
		"one has none":  {[]view.MemberID{2}, ""}, // member 1 may have had none either
		"all have some": {nil, "only members [1]"},
	} {
		var r Run
		for _, from := range []view.MemberID{2, 3} {
			r.Hears(speaker(1), from, says(slices.Contains(c.absent, from)))
		}
		r.BeginsAnew(speaker(1), says(true), func(key []byte) ([]byte, bool) {
			return []byte{1}, string(key) == codeKey || string(key) == string(v.record(pieces))
		})
		expect(t, name, &r, c.want)
	}
}
