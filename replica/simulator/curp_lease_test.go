package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/directed"
)

// Leases that outlast several views: who is cut off with one goes on reading, while masters follow each other.
func TestCURPSurvivesLeasesOverViews(t *testing.T) {
	t.Parallel()
	mustNotFind(t, directed.LeasesCutOff, nil, seedsFor(t)/8)
}
