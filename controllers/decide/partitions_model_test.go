package decide

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// partsModel plays the world of a cluster with masters: members do what they are told at the next look, if they are
// there.
type partsModel struct {
	t      *testing.T
	s      *world.Snapshot
	dice   *rand.Rand
	held   map[view.MemberID]view.View
	lives  map[view.MemberID][]membership.Life
	silent view.MemberID // who is away; 0: nobody
	images int
	slow   bool       // to recover and to fetch takes more than a look
	last   []string   // what was done, for people
	lone   *loneModel // of witnesses that have pods of their own; nil: they are in members' pods
}

// dally has a member be about to do what it may be about to do.
func (m *partsModel) dally(parts []world.Part) {
	for i := range parts {
		if m.slow && m.dice.IntN(2) == 0 {
			parts[i].CaughtUp = nil
		}
		if m.slow && m.dice.IntN(4) == 0 {
			parts[i].Recovered, parts[i].Serving = false, false
		}
	}
}

// look has everybody who is there say what it holds, and the plan be carried out.
func (m *partsModel) look() Plan {
	s := m.s
	for i := range s.Members {
		member := &s.Members[i]
		member.Report, member.Witness, member.Silence, member.WitnessSilence = nil, nil, "", ""
		if member.ID == m.silent {
			member.Silence, member.WitnessSilence = "connection refused", "connection refused"
		}
		member.StatefulSet.Spec.Template.Annotations[build.SpecHashAnnotation] = build.SpecHash(s.Cluster)
	}
	for i := range s.Members {
		member := &s.Members[i]
		if member.Silence != "" {
			continue
		}
		if v := m.held[member.ID]; v.Epoch > 0 {
			speak(s, member, v)
			m.dally(member.Report.Partitions)
			if v.Index(member.ID) < 0 {
				member.Report.Role = world.Removed
			}
		} else {
			member.Report = &world.Report{
				ClusterID: "demo.1", Role: world.Waiting, Disk: fmt.Sprintf("disk-%d", member.ID), Version: "1",
			}
		}
		if m.lone != nil {
			continue
		}
		member.Witness = &membership.WitnessReport{
			Witness: member.ID + 1, Disk: fmt.Sprintf("witness-%d", member.ID+1), Lives: m.lives[member.ID+1],
		}
	}
	if m.lone != nil {
		m.lone.speak(m)
	}
	p := Next(*s)
	m.carryOut(p)
	return p
}

func (m *partsModel) carryOut(p Plan) {
	s := m.s
	s.Cluster.Status = p.Status
	for _, l := range p.Lives.Start {
		m.lives[l.Witness] = append(slices.Clone(m.lives[l.Witness]), l)
	}
	for _, l := range p.Lives.End {
		m.lives[l.Witness] = slices.DeleteFunc(slices.Clone(m.lives[l.Witness]), func(o membership.Life) bool {
			return o == l
		})
	}
	for _, object := range p.Apply {
		_, is := object.(*corev1.PersistentVolumeClaim)
		if id, site, ok := owner(object); is && ok && s.Member(id) == nil {
			m.comes(id, site)
		}
		if is && m.lone != nil {
			m.lone.comes(m, object)
		}
	}
	if p.Step != nil {
		m.last = append(m.last, line(p.Step))
	}
	if m.lone != nil && m.lone.take(m, p.Step) {
		return
	}
	switch step := p.Step.(type) {
	case rules.WriteRecord:
		if step.View.Epoch != s.Record.View.Epoch+1 || step.View.Validate() != nil {
			m.t.Fatalf("from %+v to %+v", s.Record.View, step.View)
		}
		m.keepsBackups(step.View)
		s.Record.View = step.View
	case rules.SendView:
		for _, id := range step.Members {
			m.held[id] = step.View
		}
	case rules.DeletePod:
		if parts := membership.Parts(s.Record.View, step.Member); m.silent != step.Member {
			for _, number := range parts {
				q := s.Record.View.Partitions[number]
				if q.Master == step.Member || slices.Contains(q.Backups, step.Member) {
					m.t.Fatalf("member %d restarts, and keeps partition %d", step.Member, number)
				}
			}
		}
		member := view.Member{ID: step.Member, Site: s.Member(step.Member).Site}
		s.Member(step.Member).Pod = podOf(member, build.SpecHash(s.Cluster), true, metav1.NewTime(epoch))
	case rules.Discard:
		s.Members = slices.DeleteFunc(s.Members, func(o world.Member) bool { return o.ID == step.Member })
		if m.silent == step.Member {
			m.silent = 0
		}
	}
}

// keepsBackups has no partition go on with fewer backups than it had, or than are asked for, whichever are fewer.
func (m *partsModel) keepsBackups(next view.View) {
	of := views.Of(*m.s)
	faults := membership.Faults(of.View, of.MembershipSnapshot().Abandon)
	for i, p := range of.View.Partitions {
		if has := next.Partitions[i]; len(has.Backups) < min(len(p.Backups), faults) {
			m.t.Fatalf("partition %d: the backups %v become %v in view %d, where %d losses are to be survived", i,
				p.Backups, has.Backups, next.Epoch, faults)
		}
	}
}

// comes adds a member whose objects were applied.
func (m *partsModel) comes(id view.MemberID, site string) {
	member := view.Member{ID: id, Site: site}
	hash := build.SpecHash(m.s.Cluster)
	m.s.Zones["node-"+site] = world.Zone{Name: "zone-" + site}
	m.s.Members = append(m.s.Members, world.Member{ID: id, Site: site, StatefulSet: statefulSetOf(member, hash),
		Pod: podOf(member, hash, true, metav1.NewTime(epoch)), Volume: volumeOf(member)})
}

// disturb does something to the world, or to what is asked for.
func (m *partsModel) disturb() {
	if m.lone != nil && m.lone.disturb(m) {
		return
	}
	switch m.dice.IntN(12) {
	case 0, 1:
		m.silent = m.s.Members[m.dice.IntN(len(m.s.Members))].ID
	case 2, 3, 4:
		m.silent = 0
	case 5:
		m.images++
		m.s.Cluster.Spec.Image = fmt.Sprint("image:", m.images)
	case 6:
		five := []v1alpha1.Site{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
		from := m.dice.IntN(3)
		m.s.Cluster.Spec.Sites = [][]v1alpha1.Site{five, five[from : from+3]}[m.dice.IntN(2)]
	case 7:
		for name, zone := range m.s.Zones { // order is irrelevant: all or none
			zone.Closed = name == "node-b" && m.dice.IntN(2) == 0
			m.s.Zones[name] = zone
		}
	case 8:
		shards := min(*m.s.Cluster.Spec.Shards+1, mostShards)
		m.s.Cluster.Spec.Shards = &shards
	}
}

// mostShards are those that a model may come to have.
const mostShards = 5

// Whatever happens, and however it is mixed with updates, drains and changes of members: once everybody is back, what
// is asked for is reached, and no member restarts that is master or backup.
func TestPartitionsComeToRest(t *testing.T) {
	schedules := 25
	if testing.Short() {
		schedules = 10
	}
	for seed := range schedules {
		comeToRest(t, seed, clusterWithMasters(t), nil)
	}
}

func comeToRest(t *testing.T, seed int, s *world.Snapshot, lone *loneModel) {
	t.Helper()
	shards := int32(3)
	s.Cluster.Spec.Shards = &shards
	m := &partsModel{
		t: t, s: s, slow: true, dice: rand.New(rand.NewPCG(uint64(seed), 1)), held: map[view.MemberID]view.View{},
		lives: map[view.MemberID][]membership.Life{}, lone: lone,
	}
	for _, member := range s.Members {
		m.held[member.ID] = s.Record.View
	}
	for range 80 {
		m.disturb()
		m.look()
	}
	m.silent, m.slow = 0, false
	if lone != nil {
		lone.away = 0
	}
	for name, zone := range s.Zones { // order is irrelevant: all are open again
		zone.Closed = false
		s.Zones[name] = zone
	}
	var p Plan
	for range 400 {
		if p = m.look(); p.Step == nil && p.Again == partitionedLate && len(p.Lives.Start)+len(p.Lives.End) == 0 {
			break
		}
	}
	v := s.Record.View
	all := strings.Join(summary(p), "\n")
	if p.Step != nil || p.Again != partitionedLate || !strings.Contains(all, "PartitionsServing=True") ||
		len(v.Partitions) != s.Cluster.Spec.ShardCount() || v.FoundedPartitions() != 3 ||
		v.Size() != s.Cluster.Spec.MemberCount() || len(v.Witnesses) != v.Size() || len(s.Members) != v.Size() {
		t.Fatalf("seed %d does not come to rest: %s, members %s\n%s\nlast: %q", seed, parts(v), who(v), all,
			m.last[max(0, len(m.last)-30):])
	}
	for _, member := range s.Members {
		if facts.HashOf(member.Pod.Annotations) != build.SpecHash(s.Cluster) {
			t.Fatalf("seed %d: member %d was not updated", seed, member.ID)
		}
	}
	if lone != nil {
		lone.rests(m, seed)
	}
}
