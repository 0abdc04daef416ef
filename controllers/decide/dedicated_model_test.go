package decide

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// loneModel plays the dedicated witnesses of a cluster with masters.
type loneModel struct {
	away   view.MemberID            // who does not answer; 0: nobody
	disks  map[view.MemberID]string // that are not the first ones
	issued map[view.MemberID]bool   // whose objects were ever made
	count  map[string]int           // what happened
}

// speak has those who are there say what they have, and members whom they hear.
func (l *loneModel) speak(m *partsModel) {
	s := m.s
	for i := range s.Witnesses {
		w := &s.Witnesses[i]
		w.StatefulSet.Spec.Template.Annotations[build.SpecHashAnnotation] = build.WitnessHash(s.Cluster)
		w.Pod.Status.Conditions[0].Status = corev1.ConditionTrue
		w.WitnessSilence, w.Witness = "",
			&membership.WitnessReport{Witness: w.ID, Disk: fmt.Sprintf("witness-%d", w.ID), Lives: m.lives[w.ID]}
		if disk, other := l.disks[w.ID]; other {
			w.Witness.Disk, w.Witness.Lives = disk, nil
		}
		if w.ID == l.away || w.Volume == nil {
			w.Witness, w.WitnessSilence = nil, "connection refused"
			w.Pod.Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
	for i := range s.Members {
		r := s.Members[i].Report
		if r == nil {
			continue
		}
		r.Witnesses = nil
		for _, entry := range s.Record.View.Witnesses {
			seen := slices.IndexFunc(s.Witnesses, func(w world.Member) bool { return w.ID == entry.ID })
			r.Witnesses = append(r.Witnesses,
				world.Peer{ID: entry.ID, Reachable: seen >= 0 && s.Witnesses[seen].Witness != nil})
		}
	}
}

// comes adds a witness whose volume was applied. An ID is given once.
func (l *loneModel) comes(m *partsModel, object client.Object) {
	id, err := strconv.Atoi(object.GetLabels()[build.WitnessLabel])
	if err != nil ||
		slices.ContainsFunc(m.s.Witnesses, func(w world.Member) bool { return w.ID == view.MemberID(id) }) {
		return
	}
	if l.issued[view.MemberID(id)] && view.MemberID(id) <= m.s.Record.View.LastIssued() {
		m.t.Fatalf("witness %d is made again", id)
	}
	l.issued[view.MemberID(id)] = true
	m.s.Witnesses = append(m.s.Witnesses, witnessOf(m.s, view.MemberID(id), object.GetLabels()[build.SiteLabel]))
	l.count["comes"]++
}

// take carries a step out that is about a witness, and reports whether it is.
func (l *loneModel) take(m *partsModel, step rules.Step) bool {
	of := func(id view.MemberID) func(world.Member) bool {
		return func(w world.Member) bool { return w.ID == id }
	}
	switch step := step.(type) {
	case rules.DeletePod:
		i := slices.IndexFunc(m.s.Witnesses, of(step.Member))
		if i < 0 {
			return false
		}
		l.count["restarts"]++
		w := &m.s.Witnesses[i]
		w.Pod = podOf(view.Member{ID: w.ID, Site: w.Site}, build.WitnessHash(m.s.Cluster), true, metav1.NewTime(epoch))
		return true
	case rules.Discard:
		if !slices.ContainsFunc(m.s.Witnesses, of(step.Member)) {
			return false
		}
		for i, p := range m.s.Record.View.Partitions {
			if slices.Contains(p.Witnesses, step.Member) {
				m.t.Fatalf("witness %d is discarded, and partition %d needs it", step.Member, i)
			}
		}
		m.s.Witnesses = slices.DeleteFunc(m.s.Witnesses, of(step.Member))
		l.count["goes"]++
		return true
	}
	return false
}

// disturb does something to witnesses now and then, and reports whether it did.
func (l *loneModel) disturb(m *partsModel) bool {
	if len(m.s.Witnesses) == 0 || m.dice.IntN(3) > 0 {
		return false
	}
	w := &m.s.Witnesses[m.dice.IntN(len(m.s.Witnesses))]
	switch m.dice.IntN(6) {
	case 0, 1:
		l.away = w.ID
	case 2:
		if m.silent == 0 && l.away == 0 {
			l.disks[w.ID] = fmt.Sprintf("witness-%d-%d", w.ID, m.dice.IntN(1000))
		}
	case 3:
		if m.silent == 0 && l.away == 0 {
			w.Volume = nil
		}
	default:
		l.away = 0
	}
	return true
}

// rests holds a cluster at rest to what was asked for.
func (l *loneModel) rests(m *partsModel, seed int) {
	var sites []string
	for _, w := range m.s.Record.View.Witnesses {
		sites = append(sites, w.Site)
	}
	slices.Sort(sites)
	if len(sites) != len(m.s.Cluster.Spec.Sites) || len(slices.Compact(sites)) != len(m.s.Cluster.Spec.Sites) ||
		len(m.s.Witnesses) != len(m.s.Cluster.Spec.Sites) {
		m.t.Fatalf("seed %d: witnesses at %v, and %d of them are there", seed, sites, len(m.s.Witnesses))
	}
	for _, w := range m.s.Witnesses {
		if facts.HashOf(w.Pod.Annotations) != build.WitnessHash(m.s.Cluster) {
			m.t.Fatalf("seed %d: witness %d was not updated", seed, w.ID)
		}
	}
}

// The same where witnesses have pods of their own, which are lost, stay away, are updated and go with their sites; and
// no ID is given twice.
func TestDedicatedWitnessesComeToRest(t *testing.T) {
	count := map[string]int{}
	schedules := 25
	if testing.Short() {
		schedules = 10
	}
	for seed := range schedules {
		witnesses := &loneModel{disks: map[view.MemberID]string{}, issued: map[view.MemberID]bool{}, count: count}
		s := lone(t)
		for _, w := range s.Witnesses {
			witnesses.issued[w.ID] = true
		}
		comeToRest(t, seed, s, witnesses)
	}
	for _, what := range []string{"comes", "goes", "restarts"} {
		if count[what] < schedules {
			t.Errorf("%q came %d times only", what, count[what])
		}
	}
	t.Log(count)
}
