package node

import (
	"net/http"
	"strings"
	"testing"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// A newcomer is in no Service, which would send it clients that it refuses, and counts in no disruption budget,
// which would let the disk go that it learns from.
func TestANewcomerIsReadyOnceItVotes(t *testing.T) {
	all := waitFor(t, storage.Memory, 1, 2, 3) // on a disk the first would wait for what the second knows of it
	var founders []membership.Founder
	for _, r := range all {
		founders = append(founders, r.founder(t))
	}
	founders[2].Disk = "another" // so that the third has lost the disk that it was founded on
	v, err := membership.Found("c", founders)
	if err != nil {
		t.Fatal(err)
	}
	first, second, newcomer := all[0], all[1], all[2]
	for _, r := range []*running{first, newcomer} {
		if err := r.configure(t, v); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the first is ready", func() bool { code, _ := first.probe("/readyz"); return code == http.StatusOK })
	if code, text := newcomer.probe("/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(text, "does not vote yet") {
		t.Errorf("a newcomer that can't have its state yet: %d %s", code, text)
	}
	if err := second.configure(t, v); err != nil {
		t.Fatal(err)
	}
	await(t, "the newcomer is ready", func() bool {
		code, _ := newcomer.probe("/readyz")
		return code == http.StatusOK
	})
	if role := newcomer.status(t).Role; role != adminv1.Role_VOTER {
		t.Errorf("it is ready as %v", role)
	}
}

// A newcomer in a joint view votes at once, and is ready when it knows what the others do.
func TestANewcomerIsReadyOnceItHasFetched(t *testing.T) {
	all := newCast(t, "ABD", storage.Sync, 3)
	v := all.found(t, 1, 2, 3)
	c := waiting(t, 4, storage.Memory) // on a disk it would wait for what the others know of it
	c.Protocol, c.Blocked = "ABD", []view.MemberID{1, 2, 3}
	all[4] = run(t, c)
	joint := all.begin(t, v, []view.MemberID{4}, nil)
	await(t, "it votes", func() bool {
		got := all[4].status(t)
		return got.Role == adminv1.Role_VOTER && got.Change != nil && got.Change.Transfers
	})
	if code, text := all[4].probe("/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(text, "has not fetched the others' state yet") {
		t.Errorf("a newcomer that fetches: %d %s", code, text)
	}
	if code, text := all[1].probe("/readyz"); code != http.StatusOK {
		t.Errorf("a member that stays: %d %s", code, text)
	}
	for _, peer := range []uint32{1, 2, 3} {
		_, err := all[4].admin.SetLink(t.Context(), &adminv1.SetLinkRequest{Cluster: "c", Member: 4, Peer: peer})
		if err != nil {
			t.Fatal(err)
		}
	}
	await(t, "it is ready", func() bool { code, _ := all[4].probe("/readyz"); return code == http.StatusOK })
	all.settle(t, joint)
}
