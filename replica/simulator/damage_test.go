package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// A member that finds a record damaged which it needs can't go on.
func TestWhoGoesOnFromADamagedRecordIsFound(t *testing.T) {
	t.Parallel()
	crashes := drawn(schedule.Options{Faults: []faults.Kind{faults.Crash}})
	mutants.Build(t).Run(t, "base/go-on-damaged", "base/go-on-damaged", func(t *testing.T) {
		mustFind(t, crashes, Member(abd.Factory), 0, 300, found(check.Breach))
	})
}
