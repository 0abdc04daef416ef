package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// apart has every world be one with dedicated witnesses.
func apart(wrong curp.Mistakes) schedule.Options {
	options := curpOptions(wrong)
	options.Dedicated = true
	return options
}

// Witnesses with pods of their own are lost apart from members, stay away until others have taken their places, and
// come back with what nobody asks for any more.
func TestCURPSurvivesWithDedicatedWitnesses(t *testing.T) {
	t.Parallel()
	survives(t, Search{Options: apart(curp.Mistakes{}), First: 1, Seeds: seedsFor(t) / 8}, dedicatedPaths())
}

// With dedicated witnesses too a master that asks none of them loses what clients were told of.
func TestMistakesAreFoundWithDedicatedWitnesses(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]curp.Mistakes{
		"SkipReplay": {SkipReplay: true}, "AnswerDuplicateSynced": {AnswerDuplicateSynced: true},
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) {
			options := apart(wrong)
			options.Faults = []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Lose}
			mustFind(t, drawn(options), nil, 0, 600, nil)
		})
	}
}
