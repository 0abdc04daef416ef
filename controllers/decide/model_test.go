package decide

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// disk is what survives a member's process.
type disk struct {
	name  string
	view  view.View
	votes bool
}

// machine is one member of the model: its objects and, while its pod runs, its process.
type machine struct {
	id                view.MemberID
	site              string
	set, pod          bool
	setHash, podHash  string
	disk              *disk // nil: the volume is gone or not made
	up                bool
	down              int // rounds until a crashed process starts again
	podUID, changedAt int
	byOperator        bool // the operator ended its pod, and it does not vote again yet
}

// model is a tiny world that plans are carried out in.
type model struct {
	t         *testing.T
	rng       *rand.Rand
	cluster   *v1alpha1.GeoRegisterCluster
	machines  []*machine
	record    world.Record
	former    []world.Record // what a restore may bring back
	round     int
	counter   int
	foundings map[string]bool
	committed uint64
	made      map[view.MemberID]bool
	log       []string
}

const roundLasts = 10 * time.Second

func newModel(t *testing.T, seed uint64, sites int) *model {
	c := testCluster(sites)
	return &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), cluster: c, foundings: map[string]bool{}, made: map[view.MemberID]bool{}}
}

func (w *model) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%d: ", w.round)+fmt.Sprintf(format, args...))
}

func (w *model) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *model) machine(id view.MemberID) *machine {
	for _, m := range w.machines {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (m *machine) voter(v view.View) bool {
	return m != nil && m.disk != nil && m.disk.votes && m.disk.view.Digest() == v.Digest()
}

func (m *machine) running() bool { return m != nil && m.pod && m.up && m.disk != nil }

func (w *model) reaches(a, b *machine) bool {
	return a.running() && b.running() && a.disk.view.Epoch > 0 && a.disk.view.Digest() == b.disk.view.Digest()
}

// others counts the voters of a member's view that it reaches, without itself.
func (w *model) others(m *machine) (n int) {
	for _, o := range m.disk.view.Members {
		if other := w.machine(o.ID); o.ID != m.id && w.reaches(m, other) && other.disk.votes {
			n++
		}
	}
	return n
}

// snapshot is what an operator sees.
func (w *model) snapshot() world.Snapshot {
	now := epoch.Add(time.Duration(w.round) * roundLasts)
	s := world.Snapshot{Cluster: w.cluster.DeepCopy(), Now: now, ClusterID: "demo.1", Record: w.record, Settings: settings,
		ZonesKnown: true, Zones: map[string]world.Zone{}}
	for _, m := range w.machines {
		seen := world.Member{ID: m.id, Site: m.site, Silence: "connection refused"}
		named := view.Member{ID: m.id, Site: m.site}
		if m.set {
			seen.StatefulSet = statefulSetOf(named, m.setHash)
		}
		if m.pod {
			changed := metav1.NewTime(epoch.Add(time.Duration(m.changedAt) * roundLasts))
			seen.Pod = podOf(named, m.podHash, m.running(), changed)
			seen.Pod.UID = types.UID(fmt.Sprint(m.podUID))
		}
		if m.disk != nil {
			seen.Volume = volumeOf(named)
		}
		if m.running() {
			seen.Report = w.report(m)
		}
		if m.set || m.pod || m.disk != nil {
			s.Members = append(s.Members, seen)
		}
	}
	return s
}

func (w *model) report(m *machine) *world.Report {
	r := &world.Report{ClusterID: "demo.1", View: m.disk.view, Disk: m.disk.name, Shards: 1}
	if r.View.Epoch == 0 {
		return r
	}
	r.Digest, r.Role = r.View.Digest(), world.Learner
	if m.disk.votes {
		r.Role, r.Voting = world.Voter, 1
	}
	reached := 0
	for _, o := range r.View.Members {
		if o.ID == m.id {
			continue
		}
		ok := w.reaches(m, w.machine(o.ID))
		if ok {
			reached++
		}
		r.Peers = append(r.Peers, world.Peer{ID: o.ID, Reachable: ok})
	}
	r.Quorum = reached+1 >= r.View.Majority()
	return r
}

// tick lets the cluster's own controllers and the members' processes act.
func (w *model) tick() {
	w.round++
	for _, m := range w.machines {
		if m.set && !m.pod {
			w.counter++
			m.pod, m.podHash, m.podUID, m.changedAt, m.down, m.up = true, m.setHash, w.counter, w.round, 1, false
		}
		if !m.pod {
			continue
		}
		if m.disk == nil && m.up {
			m.up, m.changedAt = false, w.round
		}
		if !m.up && m.disk != nil {
			if m.down--; m.down <= 0 {
				m.up = true
			}
		}
		if m.running() && m.disk.view.Epoch > 0 && !m.disk.votes && w.others(m) >= m.disk.view.Faults()+1 {
			m.disk.votes = true
			w.note("member %d votes", m.id)
		}
		if m.running() && m.disk.votes {
			m.byOperator = false
		}
	}
}

// carryOut applies the objects of a plan and takes its step.
func (w *model) carryOut(p Plan, stale bool) {
	if !stale {
		w.apply(p)
	}
	w.take(p.Step, stale)
	w.check()
}

func (w *model) apply(p Plan) {
	for _, object := range p.Apply {
		id, site, ok := owner(object)
		if !ok {
			continue
		}
		m := w.machine(id)
		if m == nil {
			m = &machine{id: id, site: site}
			w.machines = append(w.machines, m)
			slices.SortFunc(w.machines, func(a, b *machine) int { return int(a.id) - int(b.id) })
		}
		switch object := object.(type) {
		case *corev1.PersistentVolumeClaim:
			if m.disk == nil && object.UID == "" {
				w.newDisk(m)
				w.made[m.id] = true
			}
		case *appsv1.StatefulSet:
			m.set, m.setHash = true, hashOf(object.Spec.Template.Annotations)
		}
	}
}

func (w *model) newDisk(m *machine) {
	w.counter++
	m.disk = &disk{name: fmt.Sprintf("disk-%d", w.counter)}
}

func (w *model) take(step Step, stale bool) {
	if step != nil {
		w.note("stale %t: %T %+v", stale, step, step)
	}
	switch step := step.(type) {
	case FoundCluster:
		if w.record.Exists {
			return
		}
		for _, m := range w.machines {
			if !stale && m.disk != nil && m.disk.view.Epoch > 0 {
				w.fail("founded although the disk of member %d holds view %d", m.id, m.disk.view.Epoch)
			}
		}
		w.foundings[step.View.Digest()] = true
		if len(w.foundings) > 1 {
			w.fail("founded twice")
		}
		w.write(step.View)
	case ChangeView:
		if w.record.UID != step.UID || w.record.ResourceVersion != step.ResourceVersion {
			return
		}
		w.changes(step)
		w.write(step.View)
	case RebuildRecord:
		if w.record.UID != step.UID || w.record.ResourceVersion != step.ResourceVersion {
			return
		}
		if !stale && step.View.Epoch < w.committed {
			w.fail("the record goes back to %d; view %d is committed", step.View.Epoch, w.committed)
		}
		w.write(step.View)
	case Tell:
		for _, id := range step.Members {
			w.configure(w.machine(id), step.View)
		}
	case DeletePod:
		m := w.machine(step.Member)
		if m == nil || types.UID(fmt.Sprint(m.podUID)) != step.UID {
			return
		}
		w.disrupts(m, stale)
		m.pod, m.up, m.byOperator = false, false, true
	case Discard:
		m := w.machine(step.Member)
		if m == nil {
			return
		}
		if w.record.View.Index(m.id) >= 0 && w.record.View.Epoch >= w.committed {
			w.fail("discarded member %d of the view", m.id)
		}
		m.set, m.pod, m.up = false, false, false
	}
}

func (w *model) write(v view.View) {
	if w.record.Exists {
		w.former = append(w.former, w.record)
	}
	w.counter++
	w.record = world.Record{Exists: true, View: v, UID: "record", ResourceVersion: fmt.Sprint(w.counter)}
}

func (w *model) configure(m *machine, v view.View) {
	if !m.running() || v.Epoch < m.disk.view.Epoch || v.Epoch == m.disk.view.Epoch && v.Digest() != m.disk.view.Digest() {
		return
	}
	if m.disk.view.Epoch == 0 {
		m.disk.votes = v.Members[v.Index(m.id)].Disk == m.disk.name
	}
	m.disk.view = v
	n := 0
	for _, o := range v.Members {
		if other := w.machine(o.ID); other != nil && other.disk != nil && other.disk.view.Digest() == v.Digest() {
			n++
		}
	}
	if n >= v.Majority() {
		w.committed = max(w.committed, v.Epoch)
	}
}

// changes holds a change of the view to what makes it safe.
func (w *model) changes(step ChangeView) {
	old, n := w.record.View, 0
	for _, m := range old.Members {
		if w.machine(m.ID).voter(old) {
			n++
		}
	}
	if n < old.Majority() {
		w.fail("the view changes although %d of %d hold the former one", n, old.Size())
	}
	if step.View.Epoch != old.Epoch+1 {
		w.fail("view %d follows %d", step.View.Epoch, old.Epoch)
	}
	for _, m := range step.View.Members {
		if old.Index(m.ID) < 0 && w.made[m.ID] {
			w.fail("id %d is given again", m.ID)
		}
	}
}

// disrupts holds the end of a pod to what keeps the cluster serving.
func (w *model) disrupts(m *machine, stale bool) {
	if stale || !m.running() || !m.disk.votes {
		return
	}
	n := 0
	for _, o := range m.disk.view.Members {
		other := w.machine(o.ID)
		if o.ID == m.id {
			continue
		}
		if other.running() && other.voter(m.disk.view) {
			n++
		}
		if other != nil && other.byOperator {
			w.fail("member %d is ended while member %d is down by the operator's hand", m.id, o.ID)
		}
	}
	if n < m.disk.view.Majority() {
		w.fail("without member %d, %d members vote", m.id, n)
	}
}

// check holds the cluster to having one view that can serve.
func (w *model) check() {
	serving := map[string]uint64{}
	for _, m := range w.machines {
		if m.disk == nil || m.disk.view.Epoch == 0 {
			continue
		}
		n := 0
		for _, o := range m.disk.view.Members {
			if w.machine(o.ID).voter(m.disk.view) {
				n++
			}
		}
		if n >= m.disk.view.Majority() {
			serving[m.disk.view.Digest()] = m.disk.view.Epoch
		}
	}
	if len(serving) > 1 {
		w.fail("two views can serve: %v", serving)
	}
}

// whole reports whether every member but one votes in the record's view: then one more may be lost.
func (w *model) whole() bool {
	for _, m := range w.record.View.Members {
		if o := w.machine(m.ID); !o.running() || !o.voter(w.record.View) {
			return false
		}
	}
	return w.record.Exists
}

// disturb does something bad, or something that users do.
func (w *model) disturb() {
	if len(w.machines) == 0 {
		return
	}
	m := w.machines[w.rng.IntN(len(w.machines))]
	switch w.rng.IntN(8) {
	case 0, 1: // a process dies, and comes back in a while
		m.up, m.down, m.changedAt = false, 1+w.rng.IntN(8), w.round
		w.note("member %d crashes", m.id)
	case 2: // a volume is deleted, with its pod
		if w.whole() && w.record.View.Index(m.id) >= 0 {
			m.disk, m.pod, m.up = nil, false, false
			w.note("member %d loses its volume", m.id)
		}
	case 3: // a disk is emptied in place
		if w.whole() && w.record.View.Index(m.id) >= 0 {
			w.newDisk(m)
			m.up, m.down = false, 1
			w.note("member %d loses its disk in place", m.id)
		}
	case 4:
		w.note("the record is deleted")
		w.record = world.Record{}
	case 5: // an old backup comes back
		if len(w.former) > 0 {
			w.record.View, w.record.Exists = w.former[len(w.former)-1].View, true
			w.counter++
			w.record.UID, w.record.ResourceVersion = "restored", fmt.Sprint(w.counter)
			w.note("the record is restored to epoch %d", w.record.View.Epoch)
		}
	case 6:
		w.counter++
		w.cluster.Spec.Image = fmt.Sprintf("image:%d", w.counter)
		w.cluster.Generation++
	case 7:
		m.pod, m.up = false, false
		w.note("the pod of member %d is deleted", m.id)
	}
}

func TestRandomFaults(t *testing.T) {
	for _, sites := range []int{3, 5} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprintf("%d sites, seed %d", sites, seed), func(t *testing.T) { randomFaults(t, seed, sites) })
		}
	}
}

func randomFaults(t *testing.T, seed uint64, sites int) {
	w := newModel(t, seed, sites)
	var stale []Plan // of an operator that was stopped, and goes on later
	for range 150 {
		w.tick()
		if w.rng.IntN(4) == 0 {
			w.disturb()
		}
		p := Next(w.snapshot())
		if w.rng.IntN(10) == 0 {
			stale = append(stale, p)
		}
		w.carryOut(p, false)
		if len(stale) > 0 && w.rng.IntN(10) == 0 {
			w.carryOut(stale[0], true)
			stale = stale[1:]
		}
	}
	var p Plan
	for range 300 { // without faults it must come to rest
		w.tick()
		p = Next(w.snapshot())
		w.carryOut(p, false)
	}
	if !w.whole() || p.Step != nil || p.Again != late {
		w.fail("not at rest: %T, conditions %v", p.Step, summary(p))
	}
	for _, m := range w.record.View.Members {
		if w.machine(m.ID).podHash != build.SpecHash(w.cluster) {
			w.fail("member %d runs a former spec", m.ID)
		}
	}
}
