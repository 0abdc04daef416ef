package check

import (
	"encoding/binary"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// A state is whole if nothing in it is from behind the log. What was said before a copy began is of an older state.
func TestWholeStateIsNotAheadOfItsLog(t *testing.T) {
	t.Parallel()
	session := append([]byte{curpSession}, binary.BigEndian.AppendUint64(nil, 7)...)
	for _, c := range []struct {
		name  string
		own   *peerv1.PartitionRecord
		used  uint64
		said  uint64
		whole bool
	}{
		{"after its log", &peerv1.PartitionRecord{Applied: 9, Floor: 9}, 9, 9, true},
		{"ahead of its log", &peerv1.PartitionRecord{Applied: 9, Floor: 9}, 10, 9, false},
		{"that is copied", &peerv1.PartitionRecord{Applied: 9, Floor: 9, Copying: true, Start: 9}, 10, 9, false},
		{
			"that was copied, up to no moment", &peerv1.PartitionRecord{Applied: 9, Floor: 9, Through: 10, Start: 9},
			10, 9, false,
		},
		{"before it was copied", &peerv1.PartitionRecord{Applied: 9, Floor: 9, Copying: true, Start: 9}, 10, 3, true},
	} {
		own, err := c.own.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		used, err := (&peerv1.PartitionSession{UsedAt: c.used}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		h := &Holder{Records: map[string][]byte{curpOwn: own, string(session): used}}
		if err := h.whole(c.said); (err == nil) != c.whole {
			t.Errorf("a state %s: %v", c.name, err)
		}
	}
}
