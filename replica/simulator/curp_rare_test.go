package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/schedule"
)

// What random schedules come to too seldom: each is made for some mutants (TestMistakesOfCURPAreFound).
func TestCURPSurvivesRareSchedules(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(seed uint64) schedule.Schedule{
		"reads of backups": drawBackupReads, "no backups": drawAlone, "an empty disk": drawEmptied, "a copy in pages": drawCopied,
		"sessions soon forgotten": drawForgetful, "false alarms": drawAlarms, "a view told to few": drawUntold, "a backup left": drawLeft,
		"a backup kept": drawKept, "a master suspended": drawSuspended, "a witness asked again": drawAskedAgain, "a witness restarted": drawThawed,
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) { mustNotFind(t, draw, nil, seedsFor(t)/80) })
	}
}
