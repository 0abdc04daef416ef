package node

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/georegister/georegister/replica/view"
)

// viewWith is a view of the cluster c with members at sites s1, s2, ...
func viewWith(epoch uint64, issued view.MemberID, ids ...view.MemberID) view.View {
	v := view.View{Cluster: "c", Epoch: epoch, Issued: issued}
	for i, id := range ids {
		v.Members = append(v.Members, view.Member{ID: id, Site: string(rune('a' + i)), Address: "somewhere:7000"})
	}
	return v
}

func TestLatest(t *testing.T) {
	none := view.View{}
	founded, moved := viewWith(2, 7, 1, 2, 3), viewWith(2, 0, 1, 2, 3)
	founded.Members[0].Disk = "d1"
	moved.Members[1].Address = "elsewhere:7000"
	joint, moves := viewWith(2, 7, 1, 2, 3), viewWith(2, 7, 1, 2, 3)
	joint.Since, joint.Members[0].Leaving, joint.Members[2].Joining = 1, true, true
	moves.Since, moves.Members = 1, append([]view.Member{}, joint.Members...)
	moves.Members[1].Address = "elsewhere:7000"
	changed, later := viewWith(5, 7, 1, 2, 3), viewWith(6, 7, 1, 2, 3)
	changed.Since, later.Since = 5, 5
	both := viewWith(2, 7, 1, 2, 3)
	both.Members[0].Disk, both.Members[1].Address = "d1", "elsewhere:7000"
	for name, test := range map[string]struct {
		disk, file, want view.View
		fails            string
	}{
		"nothing":                  {none, none, none, ""},
		"the file alone":           {none, viewWith(2, 0, 1, 2, 3), viewWith(2, 0, 1, 2, 3), ""},
		"the disk alone":           {viewWith(2, 0, 1, 2, 3), none, viewWith(2, 0, 1, 2, 3), ""},
		"a later disk":             {viewWith(3, 0, 1, 2, 4), viewWith(2, 0, 1, 2, 3), viewWith(3, 0, 1, 2, 4), ""},
		"a later file":             {viewWith(2, 0, 1, 2, 3), viewWith(3, 0, 1, 2, 4), viewWith(3, 0, 1, 2, 4), ""},
		"later, after a change":    {changed, viewWith(6, 7, 1, 2, 3), later, ""},
		"other addresses":          {founded, moved, both, ""},
		"other addresses, joint":   {joint, moved, moves, ""},
		"other members":            {viewWith(2, 0, 1, 2, 3), viewWith(2, 0, 1, 2, 4), none, "needs another epoch"},
		"removed by the file":      {viewWith(2, 0, 1, 2, 3), viewWith(3, 4, 4, 2, 3), viewWith(3, 4, 4, 2, 3), ""},
		"removed, and named again": {viewWith(3, 4, 4, 2, 3), viewWith(5, 0, 1, 2, 3), viewWith(3, 4, 4, 2, 3), ""},
	} {
		got, err := latest(test.disk, test.file, 1)
		if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v, want %q", name, err, test.fails)
		}
		if got.Epoch != test.want.Epoch || got.Epoch > 0 && got.Digest() != test.want.Digest() {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	if got, err := latest(none, viewWith(3, 0, 1, 2, 3), 4); err != nil || got.Epoch != 0 {
		t.Errorf("a file older than the member: %+v, %v; want none", got, err)
	}
}

func TestJudge(t *testing.T) {
	config := valid("d").without()
	held := viewWith(3, 5, 1, 4, 5)
	for name, test := range map[string]struct {
		held    view.View
		offered view.View
		takes   bool
		code    codes.Code
		says    string
	}{
		"the first":   {view.View{}, viewWith(1, 0, 1, 2, 3), true, codes.OK, ""},
		"a later one": {held, viewWith(4, 6, 1, 4, 6), true, codes.OK, ""},
		"the same":    {held, viewWith(3, 5, 1, 4, 5), false, codes.OK, ""},
		"an earlier one": {
			held, viewWith(2, 5, 1, 4, 5), false, codes.Aborted, "epoch 2 is offered, and member 1 holds epoch 3",
		},
		"another of the epoch": {held, viewWith(3, 6, 1, 4, 6), false, codes.Aborted, "epoch 3 is offered with digest"},
		"a removal":            {held, viewWith(4, 6, 6, 4, 5), true, codes.OK, ""},
		"after a removal":      {viewWith(3, 5, 3, 4, 5), viewWith(4, 6, 6, 4, 5), true, codes.OK, ""},
		"a return": {
			viewWith(3, 5, 3, 4, 5), viewWith(4, 5, 1, 4, 5), false, codes.FailedPrecondition,
			"member 1 was removed by epoch 3",
		},
		"two members": {held, viewWith(4, 5, 1, 4), true, codes.OK, ""}, // on the way to some other number
		"a joint one": {held, func() view.View {
			v := viewWith(4, 6, 1, 4, 5, 6)
			v.Members[0].Leaving, v.Members[3].Joining = true, true
			return v
		}(), true, codes.OK, ""},
		"everybody leaves": {held, func() view.View {
			v := viewWith(4, 5, 1)
			v.Members[0].Leaving = true
			return v
		}(), false, codes.InvalidArgument, "has nobody on one of its sides"},
		"no epoch":         {view.View{}, viewWith(0, 0, 1, 2, 3), false, codes.InvalidArgument, "epochs start at 1"},
		"one member twice": {held, viewWith(4, 0, 1, 1, 5), false, codes.InvalidArgument, "named twice"},
		"another site": {
			held, viewWith(4, 6, 6, 1, 5), false, codes.FailedPrecondition, "runs at site a, not at b",
		},
		"another cluster": {held, func() view.View {
			v := viewWith(4, 6, 1, 4, 6)
			v.Cluster = "d"
			return v
		}(), false, codes.FailedPrecondition, `of cluster "d"`},
		"no address": {held, func() view.View {
			v := viewWith(4, 6, 1, 4, 6)
			v.Members[2].Address = ""
			return v
		}(), false, codes.InvalidArgument, "member 6 has no address"},
	} {
		takes, err := takesOn(test.held, test.offered, &config)
		if takes != test.takes || status.Code(err) != test.code ||
			err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: takes it %v, %v; want %v, %s %q", name, takes, err, test.takes, test.code, test.says)
		}
	}
	late := config
	late.Self = 9
	if takes, err := takesOn(view.View{}, viewWith(3, 8, 1, 4, 8), &late); takes ||
		status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a view from before the member's id was given: %v, %v", takes, err)
	}
	if got := ids(held); !slices.Equal(got, []view.MemberID{1, 4, 5}) {
		t.Errorf("ids: %d", got)
	}
}

// Nobody can have changed a view so often: a member that took it on could never be told another one.
func TestEpochsAreBounded(t *testing.T) {
	c := Config{Cluster: "c", Protocol: "ABD", Self: 1, Site: "a", Shards: 1}
	held := viewWith(5, 3, 1, 2, 3)
	for epoch, taken := range map[uint64]bool{6: true, 5 + view.MaxEpochsMissed: true, 6 + view.MaxEpochsMissed: false,
		view.MaxEpoch:     false,
		view.MaxEpoch + 1: false, 1 << 63: false, 1<<64 - 1: false} {
		for name, offered := range map[string]view.View{
			"with it": viewWith(epoch, 6, 1, 2, 3), "without it": viewWith(epoch, 6, 4, 2, 3),
		} {
			fits, err := takesOn(held, offered, &c)
			if fits != taken || !taken && status.Code(err) != codes.InvalidArgument {
				t.Errorf("epoch %d %s is taken: %t, %v", epoch, name, fits, err)
			}
		}
	}
	for name, change := range map[string]func(*view.View){
		"since": func(v *view.View) { v.Since = 7 }, "issued": func(v *view.View) { v.Issued = 1 << 20 },
	} {
		offered := viewWith(6, 3, 1, 2, 3)
		change(&offered)
		if fits, err := takesOn(held, offered, &c); fits || status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %t, %v", name, fits, err)
		}
	}
}
