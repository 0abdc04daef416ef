package decide

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Of three members with masters one answers: it goes on with what it holds, and of what it does not hold with what it
// has followed, or empty, by its number.
func TestRescue(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	if _, err := s.now().Rescue(nil); err == nil || !strings.Contains(err.Error(), "a quorum is left") {
		t.Errorf("%v", err)
	}
	s.dead = []view.MemberID{1, 3}
	s.say(true)
	_, err := s.now().Rescue([]int{1})
	if err == nil ||
		err.Error() != "nobody who answers is certain to hold all of partitions 0; `restart` who held them, or have "+
			"partitions 0 go on from the copy of the member that is left and followed furthest, without the latest "+
			"writes, acknowledged ones too, that it had not heard of: `recover all 0`" {
		t.Errorf("%v", err)
	}
	const behind = "nobody who is left was certain to hold all of partitions 0: these go on from the copy of the " +
		"member that followed furthest, and the latest writes that were acknowledged may be lost"
	d, err := s.now().Rescue([]int{0})
	if err != nil || d.View.Epoch != 2 || d.View.Size() != 1 || d.View.Partitions[0].Empty || costs(d) != behind {
		t.Errorf("%+v: %v", d, err)
	}
	s.reports[5].Member.Partitions[0].Copying = true
	_, err = s.now().Rescue(nil)
	if err == nil ||
		err.Error() != "nobody who answers is certain to hold all of partitions 0; `restart` who held them, or have "+
			"partitions 0, of which nobody who is left has a "+
			"whole copy, begin again empty: `recover all 0`" {
		t.Errorf("%v", err)
	}
	if d, err = s.now().Rescue([]int{0}); err != nil || !d.View.Partitions[0].Empty ||
		costs(d) != "nobody who is left had a whole copy of partitions 0, which begin again empty" {
		t.Errorf("%+v: %v", d, err)
	}
	s.reports[5].Member.Partitions[0].Copying = false
	five := s.reports[5]
	five.Witness = nil
	s.reports[5] = five
	if d, err = s.now().Rescue([]int{0}); err != nil ||
		costs(d) != behind+"; of partitions 1 what only lost witnesses had saved, the latest writes that were "+
			"acknowledged, may be lost" {
		t.Errorf("%s: %v", costs(d), err)
	}
	five.Member.Digest = "another"
	if _, err = s.now().Rescue(nil); err == nil ||
		!strings.Contains(err.Error(), "c does not hold the view of epoch 1 yet") {
		t.Errorf("%v", err)
	}
}

func costs(d membership.Rescue) string { return strings.Join(d.Costs("partitions"), "; ") }
