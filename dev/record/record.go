// Package record is what the data directory of an embedded cluster keeps: its members and witnesses with their ports,
// the view that they are told, and the change of members that is going on.
package record

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Record is what a data directory keeps from one run to the next. Its slices are replaced, and not changed, so that a
// copy of it stays what it was.
type Record struct {
	Cluster  string `json:"cluster"` // the cluster's identity
	Protocol string `json:"protocol"`
	Shards   int    `json:"shards"` // that the cluster was founded with
	// Wanted is how many shards there are to be, where they are partitions, which are split until there are as many; no
	// more than Shards: they are all.
	Wanted int `json:"wanted,omitempty"`
	// Faults is how many losses a partition survives, where shards are partitions with masters; 0: they are not.
	Faults int `json:"faults,omitempty"`
	// Homes are the sites of the masters, in turn, as far as they have members; those that came later follow.
	Homes []string `json:"homes,omitempty"`
	// Given are the homes of masters as the manifest has them now, by partition, and Moved those that were given since,
	// which count first. Empty: none.
	Given   []string `json:"given,omitempty"`
	Moved   []string `json:"moved,omitempty"`
	Sites   []string `json:"sites"`   // the labels of those that it was made with
	Members []Member `json:"members"` // by ID: those of the view, newcomers, and those that leave
	// Dedicated says that witnesses have processes of their own, one at each site, which Witnesses has by ID.
	Dedicated bool          `json:"dedicated,omitempty"`
	Witnesses []Witness     `json:"witnesses,omitempty"`
	Issued    view.MemberID `json:"issued"` // the highest ID that a process ever had, of a member or a witness
	// View is the one that members are told; it is written here before any of them is. Epoch 0: none yet.
	View   view.View `json:"view"`
	Change *Change   `json:"change,omitempty"` // that is going on
	// Fragments is how the manifest has large values stored, which the members' disks keep.
	Fragments view.Fragments `json:"-"`
}

// Member is a member of the view, a newcomer, or one that leaves.
type Member struct {
	ID    view.MemberID `json:"id"`
	Site  string        `json:"site"`
	Label string        `json:"label"` // the site's name, numbered if it has several members
	Ports Ports         `json:"ports"`
	// Witness is the ID of the one beside it; 0: there is none.
	Witness view.MemberID `json:"witness,omitempty"`
}

// Ports are those of a member on the loopback interface.
type Ports struct {
	Redis int `json:"redis"`
	GRPC  int `json:"grpc"`
	Peer  int `json:"peer"`
	Admin int `json:"admin"`
	HTTP  int `json:"http"`
	// Witness is the port of the witness beside it; 0: there is none.
	Witness int `json:"witness,omitempty"`
}

// Witness is a dedicated witness: one with a process of its own, at a site.
type Witness struct {
	ID   view.MemberID `json:"id"`
	Site string        `json:"site"`
	Port int           `json:"port"`
}

// Change is a change of members that was asked for. It is over when the view has the members that it leads to, a
// quorum of them serves, and the others are told.
type Change struct {
	Join  []view.MemberID `json:"join,omitempty"`
	Leave []view.MemberID `json:"leave,omitempty"`
	// Abandoned says why the members before the change are wanted again; empty: they are not.
	Abandoned string `json:"abandoned,omitempty"`
}

// WitnessSuffix follows a member's name in that of the witness beside it, or a site's in that of its dedicated one;
// commands take these too.
const WitnessSuffix = "/witness"

// New is the record of a cluster that a manifest describes and that has never run.
func New(manifest *v1alpha1.GeoRegisterCluster) Record {
	r := Record{
		Cluster:  fmt.Sprintf("%s-%08x", manifest.Name, rand.Uint32()),
		Protocol: manifest.Spec.Protocol, Shards: manifest.Spec.ShardCount(),
		Fragments: manifest.Spec.Fragments(),
	}
	if manifest.Spec.Partitioned() {
		r.Faults, r.Given, r.Dedicated = manifest.Spec.Faults(), manifest.Spec.Homes, manifest.Spec.Dedicated()
		for _, site := range manifest.Spec.Sites {
			r.Homes = append(r.Homes, site.Name)
		}
	}
	for _, site := range manifest.Spec.Sites {
		for i := range site.MemberCount() {
			m := Member{Site: site.Name, Label: site.Name}
			m.ID, m.Witness = r.issue()
			if site.MemberCount() > 1 {
				m.Label = fmt.Sprintf("%s-%d", site.Name, i+1)
			}
			r.Members, r.Sites = append(r.Members, m), append(r.Sites, m.Label)
		}
	}
	if r.Dedicated { // their IDs are between the founders'
		for i, id := range membership.DedicatedIDs(0, len(r.Homes)) {
			r.Witnesses = append(r.Witnesses, Witness{ID: id, Site: r.Homes[i]})
			r.Issued = max(r.Issued, id)
		}
	}
	return r
}

// Newcomer adds a member at a site, whose process has yet to be started. The first at a site has its name.
func (r *Record) Newcomer(site string) view.MemberID {
	taken := func(label string) bool {
		return slices.ContainsFunc(r.Members, func(m Member) bool { return m.Label == label })
	}
	m := Member{Site: site, Label: site}
	for n := 2; taken(m.Label); n++ {
		m.Label = fmt.Sprintf("%s-%d", site, n)
	}
	m.ID, m.Witness = r.issue()
	r.Members = append(slices.Clone(r.Members), m)
	return m.ID
}

// IssueWitness gives a site a dedicated witness, whose process has yet to be started.
func (r *Record) IssueWitness(site string) {
	r.Issued = membership.DedicatedIDs(r.Issued, 1)[0]
	r.Witnesses = append(slices.Clone(r.Witnesses), Witness{ID: r.Issued, Site: site})
}

// issue gives the next member its ID, and the witness beside it, if it has one.
func (r *Record) issue() (member, witness view.MemberID) {
	switch {
	case !r.Partitioned():
		r.Issued++
		return r.Issued, 0
	case r.Dedicated:
		r.Issued = membership.PairedIDs(r.Issued, 1)[0]
		return r.Issued, 0
	}
	member = membership.PairedIDs(r.Issued, 1)[0]
	r.Issued = membership.WitnessOf(member)
	return member, r.Issued
}

// Partitioned reports whether each shard has a master, backups and witnesses. It never changes.
func (r *Record) Partitioned() bool { return r.Faults > 0 }

// Find is the record of a member; nil if there is none.
func (r *Record) Find(id view.MemberID) *Member {
	for i := range r.Members {
		if r.Members[i].ID == id {
			return &r.Members[i]
		}
	}
	return nil
}

// Label names a member, or a witness, to people. A dedicated witness has its site's name, if it is the latest there.
func (r *Record) Label(id view.MemberID) string {
	for _, m := range r.Members {
		switch {
		case m.ID == id:
			return m.Label
		case m.Witness == id && id != 0:
			return m.Label + WitnessSuffix
		}
	}
	for _, w := range r.Witnesses {
		switch {
		case w.ID != id:
		case slices.ContainsFunc(r.Witnesses, func(o Witness) bool { return o.Site == w.Site && o.ID > w.ID }):
			return fmt.Sprintf("%s%s.%d", w.Site, WitnessSuffix, w.ID)
		default:
			return w.Site + WitnessSuffix
		}
	}
	return fmt.Sprintf("member %d", id)
}

// Labels names members or witnesses to people.
func (r *Record) Labels(ids []view.MemberID) string {
	var names []string
	for _, id := range ids {
		names = append(names, r.Label(id))
	}
	return strings.Join(names, ", ")
}

// Founder is a member as the first view has it, or a newcomer as the joint one, on a disk.
func (m Member) Founder(disk string) membership.Founder {
	return membership.Founder{ID: m.ID, Site: m.Site, Address: Loopback(m.Ports.Peer), Disk: disk}
}

// Beside is the witness beside a member, as a view has it.
func (m Member) Beside(disk string) view.Witness {
	return view.Witness{ID: m.Witness, Site: m.Site, Address: Loopback(m.Ports.Witness), Disk: disk, Beside: m.ID}
}

// Entry is a dedicated witness as a view has it.
func (w Witness) Entry(disk string) view.Witness {
	return view.Witness{ID: w.ID, Site: w.Site, Address: Loopback(w.Port), Disk: disk}
}

// GivenUp is a change that is abandoned for a reason; nil stays nil, as where no change is going on.
func (c *Change) GivenUp(why string) *Change {
	if c == nil {
		return nil
	}
	return &Change{Join: c.Join, Leave: c.Leave, Abandoned: why}
}

// Describe says what changes.
func (r *Record) Describe(c *Change) string {
	var parts []string
	for _, side := range []struct {
		ids          []view.MemberID
		one, several string
	}{{c.Join, "joins", "join"}, {c.Leave, "leaves", "leave"}} {
		switch len(side.ids) {
		case 0:
		case 1:
			parts = append(parts, r.Labels(side.ids)+" "+side.one)
		default:
			parts = append(parts, r.Labels(side.ids)+" "+side.several)
		}
	}
	return strings.Join(parts, "; ")
}
