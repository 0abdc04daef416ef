package script_test

import (
	"path/filepath"
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/test/near"
)

// Each protocol's schedules near its own scripts. Those of Gryff-RSC are in Gryff's package, and many more: no other
// protocol depends so much on which member has heard what.
func TestSchedulesNearScripts(t *testing.T) {
	for _, p := range catalog.All() {
		folder := filepath.Join("..", p.Name(), "testdata")
		if p.Factory == nil || p.Regular() {
			continue
		}
		if scripts, err := filepath.Glob(filepath.Join(folder, "*", "*.txt")); err != nil || len(scripts) == 0 {
			continue // it has none
		}
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			search := near.Scripts(t, folder, p.Factory)
			search.Count = 300
			near.MustPass(t, search)
		})
	}
}
