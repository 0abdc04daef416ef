package node

import (
	"testing"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/manager"
)

// A member that is gone for good is replaced, twice, while no client does anything: what was written before is read at
// the newcomers, even once nobody is left who was there when it was written but one.
func TestReplacementInAnIdleCluster(t *testing.T) {
	for _, protocol := range []string{"ABD", "Gryff"} {
		t.Run(protocol, func(t *testing.T) {
			var all []*running
			for id := range view.MemberID(5) {
				c := waiting(t, id+1, storage.Sync)
				c.Protocol = protocol
				all = append(all, run(t, c))
			}
			v := founded(t, all[:3])
			if err := all[0].redis(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			for _, lost := range []int{2, 1} {
				newcomer := all[len(all)-lost] // 4 for 3, then 5 for 2
				all[lost].stop()
				if <-all[lost].ended; all[lost].err != nil {
					t.Fatal(all[lost].err)
				}
				next, err := manager.Replace(v, all[lost].config.Self, newcomer.config.Site, func(id view.MemberID) string {
					if id != newcomer.config.Self {
						t.Errorf("the newcomer is to be %d, not %d", id, newcomer.config.Self)
					}
					return newcomer.config.Listen.Peer
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range next.Members {
					if err := all[m.ID-1].configure(t, next); err != nil {
						t.Fatal(err)
					}
				}
				await(t, "the newcomer votes", func() bool { return newcomer.status(t).Role == adminv1.Role_VOTER })
				for _, m := range next.Members {
					await(t, "quorum", func() bool { return all[m.ID-1].status(t).Quorum })
				}
				if got, err := newcomer.redis(t).Get(t.Context(), "k").Result(); got != "v" || err != nil {
					t.Errorf("member %d reads %q, %v", newcomer.config.Self, got, err)
				}
				v = next
			}
			if v.Epoch != 3 || v.Index(1) != 0 || v.Index(4) != 2 || v.Index(5) != 1 {
				t.Errorf("the view is %+v", v)
			}
		})
	}
}
