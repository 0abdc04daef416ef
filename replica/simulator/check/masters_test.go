package check

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// What a master says rests on its disk: that its term serves, when it answers, and the state that a page is of.
func TestMastersSayWhatTheirDisksHave(t *testing.T) {
	raw, err := (&peerv1.PartitionRecord{Term: 3, Recovered: 3, Applied: 5}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	h := &Holder{Member: 1, Records: map[string][]byte{curpOwn: raw}}
	for _, c := range []struct {
		kind  peerv1.Kind
		says  *peerv1.Curp
		right bool
	}{
		{peerv1.Kind_MASTER_READ_REPLY, &peerv1.Curp{Term: 3}, true},
		{peerv1.Kind_MASTER_READ_REPLY, &peerv1.Curp{Term: 4}, false},
		{peerv1.Kind_MASTER_READ_REPLY, &peerv1.Curp{Term: 4, Refused: true}, true},
		{peerv1.Kind_UPDATE_REPLY, &peerv1.Curp{Term: 4}, false},
		{peerv1.Kind_COPY_PAGE, &peerv1.Curp{Term: 3, Last: 5}, true},
		{peerv1.Kind_COPY_PAGE, &peerv1.Curp{Term: 3, Last: 6}, false},
	} {
		var s Masters
		err := s.Sends(h, 2, &peerv1.Message{Kind: c.kind, Curp: c.says}, view.Partition{Master: 1}, nil)
		if (err == nil) != c.right {
			t.Errorf("%v %v: %v", c.kind, c.says, err)
		}
	}
}

// Who follows a term has dropped from its log what that does not have: also terms that have no entries there.
func TestFollowersNameNoEmptyTerms(t *testing.T) {
	for floor, right := range map[uint64]bool{8: false, 9: true} {
		history := []*peerv1.TermStart{{Term: 1, Start: 1}, {Term: 2, Start: 9}}
		raw, err := (&peerv1.PartitionRecord{Term: 3, Floor: floor, History: history}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		h := &Holder{Member: 2, Records: map[string][]byte{curpOwn: raw}}
		m := &peerv1.Message{Kind: peerv1.Kind_SYNC_REPLY, Curp: &peerv1.Curp{Term: 3, Last: floor, Granted: 1}}
		var s Masters
		if err := s.Sends(h, 1, m, view.Partition{Master: 1}, nil); (err == nil) != right {
			t.Errorf("the log ends with entry %d: %v", floor, err)
		}
	}
}
