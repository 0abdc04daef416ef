package simulator

import (
	"testing"
)

// Leases that outlast several views: who is cut off with one goes on reading, while masters follow each other.
func TestCURPSurvivesLeasesOverViews(t *testing.T) {
	t.Parallel()
	mustNotFind(t, drawLeases, nil, seedsFor(t)/8)
}
