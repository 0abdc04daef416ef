package rules

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// discardMember removes what is left of a member that no view names. The view is committed, so the member has no
// quorum, or there was none; and its id is given to nobody else.
func discardMember(s *views.Views) *Outcome {
	for _, m := range s.Leftover() {
		// What no view ever named holds nothing.
		unused := m.ID > s.View.LastIssued() && (m.Report == nil || m.Report.View.Epoch == 0)
		goes := unused || s.Cluster.Spec.Storage.Retention == v1alpha1.Delete && !s.WasGivenUp(m)
		if objects := remains(m, goes); len(objects) > 0 {
			return act(Discard{Member: m.ID, Objects: objects},
				message.Normal("MemberDiscarded", "Discard", discarded(m, objects)))
		}
	}
	return nil
}

// remains are the objects of a member or a dedicated witness that are to be removed and are not on their way out: its
// StatefulSet, whose pod holds the volume, and with that the volume.
func remains(m *world.Member, volumeToo bool) (objects []client.Object) {
	if m.StatefulSet != nil && m.StatefulSet.DeletionTimestamp == nil {
		objects = append(objects, m.StatefulSet)
	}
	if volumeToo && m.Volume != nil && m.Volume.DeletionTimestamp == nil {
		objects = append(objects, m.Volume)
	}
	return objects
}

func discarded(m *world.Member, objects []client.Object) string {
	text := fmt.Sprintf("Removed what was left of member %d (site %s)", m.ID, m.Site)
	if m.Volume != nil && objects[len(objects)-1] != client.Object(m.Volume) {
		text += fmt.Sprintf("; its volume %s is retained: delete it when nobody wants its data", m.Volume.Name)
	}
	return text
}

// discardWitness removes what is left of a dedicated witness that no view names any more, and that is not to be taken
// on. The view is committed, and without it, so nobody recovers from what it saved.
func discardWitness(s *views.Views) *Outcome {
	for i := range s.Witnesses {
		m := &s.Witnesses[i]
		kept := slices.Concat(s.DedicatedWitnesses(), s.Coming)
		if slices.ContainsFunc(kept, func(w view.Witness) bool { return w.ID == m.ID }) {
			continue
		}
		if objects := remains(m, m.ID > s.View.LastIssued() || !s.WasGivenUp(m)); len(objects) > 0 {
			who := message.SeenWitness(m)
			return act(Discard{Member: m.ID, Who: who, Objects: objects},
				message.Normal("WitnessDiscarded", "Discard", "Removed what was left of "+who))
		}
	}
	return nil
}
