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
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// disk is what survives a member's process.
type disk struct {
	name             string
	view             view.View
	digest           string
	votes            bool
	settled, fetched bool // in the joint view that it holds
	state            writes
}

// writes are the number of the latest write to each key.
type writes [6]int

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
	pool              string // that its StatefulSet is for
	byOperator        bool   // the operator ended its pod, and it does not vote again yet
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
	disks     map[view.MemberID]named // an id is of one disk for ever
	acked     writes                  // that clients were told of
	faults    int                     // how many kinds of them there are
	taken     map[string]int          // changes of the view, by their kind; nil: they are not counted
	givenUp   uint64                  // the epoch of the last view that a recovery gave up
	log       []string
}

// named is the disk that a view named for an id, first that of an epoch.
type named struct {
	disk  string
	epoch uint64
}

const roundLasts = 10 * time.Second

func newModel(t *testing.T, seed uint64, sites int) *model {
	c := testCluster(sites)
	return &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), cluster: c, foundings: map[string]bool{}, disks: map[view.MemberID]named{}}
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
	return m != nil && m.disk != nil && m.disk.votes && m.disk.view.Epoch == v.Epoch && m.disk.digest == v.Digest()
}

func (m *machine) running() bool { return m != nil && m.pod && m.up && m.disk != nil }

func (w *model) reaches(a, b *machine) bool {
	return a.running() && b.running() && a.disk.view.Epoch > 0 && a.disk.digest == b.disk.digest
}

// reached are the voters of a member's view that it reaches, without itself.
func (w *model) reached(m *machine) map[view.MemberID]*machine {
	all := map[view.MemberID]*machine{}
	for _, o := range m.disk.view.Members {
		if other := w.machine(o.ID); o.ID != m.id && w.reaches(m, other) && other.disk.votes {
			all[o.ID] = other
		}
	}
	return all
}

// learns has a member know what some others know.
func (m *machine) learns(from map[view.MemberID]*machine) {
	for _, o := range from { // order is irrelevant: the latest counts
		for key, write := range o.disk.state {
			m.disk.state[key] = max(m.disk.state[key], write)
		}
	}
}

// snapshot is what an operator sees.
func (w *model) snapshot() world.Snapshot {
	now := epoch.Add(time.Duration(w.round) * roundLasts)
	s := world.Snapshot{Cluster: w.cluster.DeepCopy(), Now: now, ClusterID: "demo.1", Record: w.record, Settings: settings,
		ZonesKnown: true, Zones: map[string]world.Zone{}}
	for _, m := range w.machines {
		seen := world.Member{ID: m.id, Site: m.site, Silence: "connection refused", SilentFor: time.Hour}
		named := view.Member{ID: m.id, Site: m.site}
		if m.set {
			seen.StatefulSet = statefulSetOf(named, m.setHash)
			if m.pool != "" {
				seen.StatefulSet.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: m.pool}
			}
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
	r := &world.Report{ClusterID: "demo.1", View: m.disk.view, Disk: m.disk.name, Shards: w.cluster.Spec.ShardCount(),
		Change: world.Change{Settled: m.disk.settled, Fetched: m.disk.fetched}}
	if r.View.Epoch == 0 {
		return r
	}
	r.Digest, r.Role = m.disk.digest, world.Learner
	if m.disk.votes {
		r.Role, r.Voting = world.Voter, 1
	}
	if r.View.Index(m.id) < 0 {
		r.Role = world.Removed
		return r
	}
	reached := map[view.MemberID]bool{m.id: true}
	for _, o := range r.View.Members {
		if o.ID == m.id {
			continue
		}
		ok := w.reaches(m, w.machine(o.ID))
		reached[o.ID] = ok
		r.Peers = append(r.Peers, world.Peer{ID: o.ID, Reachable: ok})
	}
	r.Quorum = r.View.Quorum(func(id view.MemberID) bool { return reached[id] })
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
		if m.running() && m.disk.view.Epoch > 0 {
			w.gossip(m)
			w.progress(m)
		}
		if m.running() && m.disk.votes {
			m.byOperator = false
		}
	}
	w.serve()
}

// gossip has a member take on a later view of somebody in its own.
func (w *model) gossip(m *machine) {
	for _, o := range m.disk.view.Members {
		if other := w.machine(o.ID); other.running() && other.disk.view.Epoch > m.disk.view.Epoch && w.rng.IntN(4) == 0 {
			w.configure(m, other.disk.view)
		}
	}
}

// progress has a member join with a new disk, or do its part in a joint view, from those that it reaches.
func (w *model) progress(m *machine) {
	v, others := m.disk.view, w.reached(m)
	if v.Index(m.id) < 0 || w.rng.IntN(2) == 0 {
		return
	}
	answers := func(id view.MemberID) bool { return others[id] != nil }
	if !m.disk.votes && v.Meets(answers) {
		m.learns(others)
		m.disk.votes = true
		w.note("member %d votes", m.id)
	}
	if !m.disk.votes || !v.Joint() || !v.Quorum(func(id view.MemberID) bool { return id == m.id || answers(id) }) {
		return
	}
	if m.disk.settled = true; v.Transfers(m.id) && !m.disk.fetched {
		m.learns(others)
		m.disk.fetched = true
		w.note("member %d holds the state", m.id)
	}
}

// serve has a client write, at a random quorum, and be told of it.
func (w *model) serve() {
	key := w.rng.IntN(2 * len(w.acked))
	for _, m := range w.machines {
		if key >= len(w.acked) || !m.running() || m.disk.view.Index(m.id) < 0 || !m.disk.votes {
			continue
		}
		voters := w.reached(m)
		voters[m.id] = m
		quorum := map[view.MemberID]*machine{}
		for _, i := range w.rng.Perm(m.disk.view.Size()) {
			if id := m.disk.view.Members[i].ID; voters[id] != nil {
				quorum[id] = voters[id]
			}
			if m.disk.view.Quorum(func(id view.MemberID) bool { return quorum[id] != nil }) {
				w.acked[key]++
				for _, o := range quorum { // order is irrelevant: all are written to
					o.disk.state[key] = w.acked[key]
				}
				return
			}
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
		if m != nil && !m.set && !m.pod && m.disk == nil {
			m.site = site
		}
		if m == nil {
			m = &machine{id: id, site: site}
			w.machines = append(w.machines, m)
			slices.SortFunc(w.machines, func(a, b *machine) int { return int(a.id) - int(b.id) })
		}
		switch object := object.(type) {
		case *corev1.PersistentVolumeClaim:
			if m.disk == nil && object.UID == "" {
				w.newDisk(m)
			}
		case *appsv1.StatefulSet:
			m.set, m.setHash = true, facts.HashOf(object.Spec.Template.Annotations)
			m.pool = object.Spec.Template.Spec.NodeSelector[corev1.LabelTopologyZone]
		}
	}
}

func (w *model) newDisk(m *machine) {
	w.counter++
	m.disk = &disk{name: fmt.Sprintf("disk-%d", w.counter)}
}

func (w *model) take(step rules.Step, stale bool) {
	if step != nil {
		w.note("stale %t: %s", stale, line(step))
	}
	switch step := step.(type) {
	case rules.WriteRecord:
		w.takeRecord(step, stale)
	case rules.SendView:
		for _, id := range step.Members {
			w.configure(w.machine(id), step.View)
		}
	case rules.DeletePod:
		m := w.machine(step.Member)
		if m == nil || types.UID(fmt.Sprint(m.podUID)) != step.UID {
			return
		}
		w.disrupts(m, stale)
		m.pod, m.up, m.byOperator = false, false, true
	case rules.Discard:
		m := w.machine(step.Member)
		if m == nil {
			return
		}
		if w.record.View.Index(m.id) >= 0 && w.record.View.Epoch >= w.committed {
			if !stale { // else what is deleted is not any more what was looked at
				w.fail("discarded member %d of the view", m.id)
			}
			return
		}
		m.set, m.pod, m.up = false, false, false
		for _, object := range step.Objects {
			if _, volume := object.(*corev1.PersistentVolumeClaim); volume {
				m.disk = nil
			}
		}
	}
}

func (w *model) takeRecord(step rules.WriteRecord, stale bool) {
	if w.record.UID != step.UID || w.record.ResourceVersion != step.ResourceVersion {
		return
	}
	switch step.Kind {
	case "Founding":
		for _, m := range w.machines {
			if !stale && m.disk != nil && m.disk.view.Epoch > 0 {
				w.fail("founded although the disk of member %d holds view %d", m.id, m.disk.view.Epoch)
			}
		}
		w.foundings[step.View.Digest()] = true
		if len(w.foundings) > 1 {
			w.fail("founded twice")
		}
	case "KeepingRecord":
		return
	case "RebuildingRecord":
		if !stale && step.View.Epoch < w.committed {
			w.fail("the record goes back to %d; view %d is committed", step.View.Epoch, w.committed)
		}
	default:
		w.changes(step)
	}
	w.write(step.View)
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
	if m.disk.view.Epoch == 0 && v.Index(m.id) >= 0 {
		m.disk.votes = v.Members[v.Index(m.id)].Disk == m.disk.name
	}
	if v.Epoch > m.disk.view.Epoch {
		m.disk.settled, m.disk.fetched = false, false
	}
	m.disk.view, m.disk.digest = v, v.Digest()
	if v.Quorum(func(id view.MemberID) bool {
		other := w.machine(id)
		return other != nil && other.disk != nil && other.disk.digest == m.disk.digest
	}) {
		w.committed = max(w.committed, v.Epoch)
	}
}

// changes holds a change of the view to what makes it safe.
func (w *model) changes(step rules.WriteRecord) {
	old := w.record.View
	votes := func(id view.MemberID) bool { return w.machine(id).voter(old) }
	if step.View.Epoch != old.Epoch+1 {
		w.fail("view %d follows %d", step.View.Epoch, old.Epoch)
	}
	switch step.Kind {
	case "BeginningChange":
		if old.Joint() || !step.View.Joint() {
			w.fail("a change begins from %s to %s", who(old), who(step.View))
		}
		if !old.Quorum(votes) {
			w.fail("the view changes although too few hold the former one")
		}
	case "FinishingChange":
		if !old.Joint() || step.View.Joint() || !old.Quorum(votes) {
			w.fail("a change ends from %s to %s", who(old), who(step.View))
		}
	case "AbandoningChange":
		if !old.Joint() || step.View.Joint() {
			w.fail("a change is abandoned from %s to %s", who(old), who(step.View))
		}
	case "Recovering":
		if old.Quorum(func(id view.MemberID) bool { return votes(id) && w.machine(id).running() }) {
			w.fail("a quorum is given up")
		}
		w.acked, w.givenUp = w.machine(step.View.Members[0].ID).disk.state, old.Epoch
	}
	if w.taken != nil {
		w.taken[step.Kind]++
	}
	for _, m := range step.View.Members {
		known, is := w.disks[m.ID]
		if is && known.disk != m.Disk {
			w.fail("id %d is given again: to disk %s, and it was of disk %s", m.ID, m.Disk, known.disk)
		}
		if !is {
			w.disks[m.ID] = named{m.Disk, step.View.Epoch}
		}
	}
}

// disrupts holds the end of a pod to what keeps the cluster serving.
func (w *model) disrupts(m *machine, stale bool) {
	if stale || !m.running() || !m.disk.votes {
		return
	}
	for _, o := range m.disk.view.Members {
		if other := w.machine(o.ID); o.ID != m.id && other != nil && other.byOperator {
			w.fail("member %d is ended while member %d is down by the operator's hand", m.id, o.ID)
		}
	}
	if !m.disk.view.Quorum(func(id view.MemberID) bool {
		other := w.machine(id)
		return id != m.id && other.running() && other.voter(m.disk.view)
	}) {
		w.fail("without member %d too few vote", m.id)
	}
}

// check holds the cluster to having one view that can serve, and to keeping what a client was told of: every quorum has
// somebody who knows it.
func (w *model) check() {
	serving := map[string]uint64{}
	for _, m := range w.machines {
		if m.disk == nil || m.disk.view.Epoch <= w.givenUp {
			continue
		}
		v := m.disk.view
		votes := func(id view.MemberID) bool {
			o := w.machine(id)
			return o != nil && o.disk != nil && o.disk.votes && o.disk.digest == m.disk.digest
		}
		if v.Quorum(votes) {
			serving[m.disk.digest] = v.Epoch
		}
		for key, write := range w.acked {
			if v.Quorum(func(id view.MemberID) bool { return votes(id) && w.machine(id).disk.state[key] < write }) {
				w.fail("a quorum of view %d does not know of write %d to key %d", v.Epoch, write, key)
			}
		}
	}
	if len(serving) > 1 {
		w.fail("two views can serve: %v", serving)
	}
}
