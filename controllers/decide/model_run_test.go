package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

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
	switch w.rng.IntN(w.faults) {
	case 0, 1: // a process dies, and comes back in a while
		m.up, m.down, m.changedAt = false, 1+w.rng.IntN(8), w.round
		w.note("member %d crashes", m.id)
	case 2: // a volume is deleted, with its pod
		if m.disk != nil && (w.whole() || w.record.Exists && w.record.View.Index(m.id) < 0) {
			m.disk, m.pod, m.up = nil, false, false
			w.note("member %d loses its volume", m.id)
		}
	case 3: // a disk is emptied in place
		if m.disk != nil && (w.whole() || w.record.Exists && w.record.View.Index(m.id) < 0) {
			w.newDisk(m)
			m.up, m.down = false, 1
			w.note("member %d loses its disk in place", m.id)
		}
	case 4:
		w.note("the record is deleted")
		w.record = world.Record{}
		w.forget()
	case 5: // an old backup comes back
		if len(w.former) > 0 {
			w.record.View, w.record.Exists = w.former[len(w.former)-1].View, true
			w.forget()
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
	case 8, 9: // the sites are edited
		w.edit()
	case 10:
		site := &w.cluster.Spec.Sites[w.rng.IntN(len(w.cluster.Spec.Sites))]
		site.NodePool = &v1alpha1.NodePool{Value: fmt.Sprintf("zone-%d", w.rng.IntN(3))}
		w.cluster.Generation++
		w.note("site %s is to be at %s", site.Name, site.NodePool.Value)
	}
}

// forget drops the ids of views that were never committed: with the record gone nobody may know them.
func (w *model) forget() {
	for id, named := range w.disks { // order is irrelevant: each is judged alone
		if named.epoch > w.committed {
			delete(w.disks, id)
		}
	}
}

// edit asks for other sites, 3, 5 or 7 members in all.
func (w *model) edit() {
	names := w.rng.Perm(7)
	w.cluster.Spec.Sites = nil
	for left := 3 + 2*w.rng.IntN(3); left > 0; {
		n := int32(1 + w.rng.IntN(min(left, 2)))
		site := v1alpha1.Site{Name: string(rune('a' + names[len(w.cluster.Spec.Sites)])), Members: &n}
		w.cluster.Spec.Sites = append(w.cluster.Spec.Sites, site)
		left -= int(n)
	}
	w.cluster.Generation++
	w.note("the sites are to be %v", w.sites())
}

func (w *model) sites() map[string]int {
	all := map[string]int{}
	for _, site := range w.cluster.Spec.Sites {
		all[site.Name] = site.MemberCount()
	}
	return all
}

// Of the faults, those before the edits may befall any cluster; those after them make a lost quorum.
const (
	faultsAlone = 8
	withEdits   = 11
	seeds       = 12
)

func TestRandomFaults(t *testing.T) {
	taken := map[string]int{} // changes of the view, by their kind
	for _, sites := range []int{3, 5} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("%d sites, seed %d", sites, seed), func(t *testing.T) {
				randomFaults(t, seed, sites, faultsAlone, taken)
			})
			t.Run(fmt.Sprintf("edits of %d sites, seed %d", sites, seed), func(t *testing.T) {
				randomFaults(t, seed, sites, withEdits, taken)
			})
		}
	}
	for _, kind := range []string{"BeginningChange", "FinishingChange", "AbandoningChange"} {
		if taken[kind] < seeds {
			t.Errorf("%s: %d times, which tests little", kind, taken[kind])
		}
	}
}

func randomFaults(t *testing.T, seed uint64, sites, faults int, taken map[string]int) {
	w := newModel(t, seed, sites)
	w.faults, w.taken = faults, taken
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
		if w.rng.IntN(10) > 0 { // else it crashes before it begins
			w.carryOut(p, false)
		}
		if len(stale) > 0 && w.rng.IntN(10) == 0 {
			w.carryOut(stale[0], true)
			stale = stale[1:]
		}
	}
	w.rests()
}

// rests lets the cluster come to rest, which it must without faults, as it is asked for.
func (w *model) rests() {
	w.t.Helper()
	var p Plan
	for quiet := 0; quiet < 5 && w.round < 1000; quiet++ {
		w.tick()
		p = Next(w.snapshot())
		w.carryOut(p, false)
		w.cluster.Status = p.Status
		if p.Step != nil || p.Again != late || !w.whole() {
			quiet = 0
		}
	}
	if !w.whole() || p.Step != nil || p.Again != late || p.Status.Change != nil {
		w.fail("not at rest: %T, conditions %v", p.Step, summary(p))
	}
	there := map[string]int{}
	for _, m := range w.record.View.Members {
		there[m.Site]++
		if w.machine(m.ID).podHash != build.SpecHash(w.cluster) {
			w.fail("member %d runs a former spec", m.ID)
		}
	}
	if fmt.Sprint(there) != fmt.Sprint(w.sites()) {
		w.fail("members are at %v, asked for is %v", there, w.sites())
	}
	for _, m := range w.machines {
		if w.record.View.Index(m.id) < 0 && (m.set || m.pod) {
			w.fail("member %d was left out and is still there", m.id)
		}
		if i := w.record.View.Index(m.id); i >= 0 {
			site := views.Of(w.snapshot()).SiteOf(w.record.View.Members[i])
			if site.NodePool != nil && site.NodePool.Value != m.pool {
				w.fail("member %d is at %s, asked for is %s", m.id, m.pool, site.NodePool.Value)
			}
		}
	}
}

// A majority of the disks is lost, and the user consents to what the condition proposes.
func TestRandomRecoveries(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newModel(t, seed, 3+2*int(seed%2))
			w.faults = withEdits
			for range 20 + seed {
				w.tick()
				if w.rng.IntN(6) == 0 && w.record.Exists && w.acked != (writes{}) && len(w.former) > 1 {
					w.disturb()
				}
				w.carryOut(Next(w.snapshot()), false)
			}
			w.losesQuorum()
			for range 200 {
				w.tick()
				p := Next(w.snapshot())
				if w.rng.IntN(4) > 0 {
					w.carryOut(p, false)
				}
				w.consent(p)
			}
			w.rests()
		})
	}
}

// losesQuorum takes the volumes of so many members that no quorum is left.
func (w *model) losesQuorum() {
	for w.record.Exists && views.Of(w.snapshot()).Doubt == nil {
		before := w.record.View.Before()
		if !before.Quorum(func(id view.MemberID) bool { return w.machine(id) != nil && w.machine(id).disk != nil }) {
			return
		}
		for _, i := range w.rng.Perm(before.Size()) {
			if m := w.machine(before.Members[i].ID); m != nil && m.disk != nil {
				m.disk, m.pod, m.up = nil, false, false
				w.note("member %d loses its volume", m.id)
				break
			}
		}
	}
}

// consent writes spec.recovery as the condition says.
func (w *model) consent(p Plan) {
	for _, c := range p.Status.Conditions {
		var asked v1alpha1.Recovery
		at := strings.Index(c.Message, "{trustMember")
		if c.Type != v1alpha1.ConditionQuorumLost || at < 0 {
			continue
		}
		if _, err := fmt.Sscanf(c.Message[at:], "{trustMember: %d, epoch: %d}", &asked.TrustMember,
			&asked.Epoch); err != nil {
			w.fail("the condition can't be followed: %s: %v", c.Message, err)
		}
		w.cluster.Spec.Recovery = &asked
	}
}
