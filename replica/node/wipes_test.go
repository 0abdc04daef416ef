package node

import (
	"os"
	"testing"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/storage"
)

// A disk may be lost time and again, with nobody at work who could tell the newcomer what was known of it.
func TestADiskIsLostAgainInAnIdleCluster(t *testing.T) {
	all := waitFor(t, storage.Sync, 1, 2, 3)
	v := founded(t, all)
	third := all[2]
	for incarnation := range uint32(3) {
		third.stop()
		if <-third.ended; third.err != nil {
			t.Fatal(third.err)
		}
		if err := os.RemoveAll(third.config.Directory); err != nil {
			t.Fatal(err)
		}
		third = run(t, third.config)
		if err := third.configure(t, v); err != nil {
			t.Fatal(err)
		}
		await(t, "it votes again", func() bool { return third.status(t).Role == adminv1.Role_VOTER })
		if got := third.status(t); got.Incarnation != incarnation+2 {
			t.Errorf("incarnation %d, want %d", got.Incarnation, incarnation+2)
		}
	}
}
