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

// Leases that end within a few writes of disks: messages about them wait for no write of another partition.
func TestCURPSurvivesLeasesOnSlowDisks(t *testing.T) {
	t.Parallel()
	mustNotFind(t, directed.LeasesOnSlowDisks, nil, seedsFor(t)/8)
}
