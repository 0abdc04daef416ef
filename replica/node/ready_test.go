package node

import (
	"net/http"
	"strings"
	"testing"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view/manager"
)

// A newcomer is in no Service, which would send it clients that it refuses, and counts in no disruption budget,
// which would let the disk go that it learns from.
func TestANewcomerIsReadyOnceItVotes(t *testing.T) {
	all := waitFor(t, storage.Sync, 1, 2, 3)
	var founders []manager.Founder
	for _, r := range all {
		founders = append(founders, r.founder(t))
	}
	founders[2].Disk = "another" // so that the third has lost the disk that it was founded on
	v, err := manager.Found("c", founders)
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
	if code, text := newcomer.probe("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "does not vote yet") {
		t.Errorf("a newcomer that can't have its state yet: %d %s", code, text)
	}
	if err := second.configure(t, v); err != nil {
		t.Fatal(err)
	}
	await(t, "the newcomer is ready", func() bool { code, _ := newcomer.probe("/readyz"); return code == http.StatusOK })
	if role := newcomer.status(t).Role; role != adminv1.Role_VOTER {
		t.Errorf("it is ready as %v", role)
	}
}
