package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gryff"
)

// sameMembers are all faults but replacements: the schedules in which the view stays what it was.
func sameMembers() []FaultKind { return without(FaultKinds(), Replace) }

func TestABDSurvivesReplacements(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(abd.Factory), Options: Options{Faults: FaultKinds(), RMWs: FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, managerPaths())
}

func TestGryffSurvivesReplacements(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(gryff.Factory), Options: Options{Faults: FaultKinds(), RMWs: ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, managerPaths())
}
