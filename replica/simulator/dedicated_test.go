package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/simulator/schedule"
)

// apart has every world be one with dedicated witnesses.
func apart() schedule.Options {
	options := curpOptions()
	options.Dedicated = true
	return options
}

// Witnesses with pods of their own are lost apart from members, stay away until others have taken their places, and
// come back with what nobody asks for any more.
func TestCURPSurvivesWithDedicatedWitnesses(t *testing.T) {
	t.Parallel()
	survives(t, Search{Options: apart(), First: 1, Seeds: seedsFor(t) / 8}, dedicatedPaths())
}

// With dedicated witnesses too a master that asks none of them loses what clients were told of.
func TestMistakesAreFoundWithDedicatedWitnesses(t *testing.T) {
	t.Parallel()
	options := apart()
	options.Faults = []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Lose}
	mustFindEach(t, nil, nil, []hunt{
		{"curp/skip-replay", options, 0, 600},
		{"curp/answer-duplicate-synced", options, 0, 600},
	})
}
