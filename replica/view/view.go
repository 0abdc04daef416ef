// Package view says who is a member of a cluster, where, and in which epoch, and what a quorum of them is.
//
// A view is plain, or joint while members change: then some of its members are joining and some are leaving, and a
// quorum is a majority of those before the change together with a majority of those after it (docs/protocols.md,
// changes of the view).
package view

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// MemberID names a member for ever: an ID is never used again for another one. IDs start at 1.
type MemberID uint32

// MaxMemberID bounds member IDs: a register.Writer has 16 bits for them.
const MaxMemberID = 1<<16 - 1

// Incarnation counts the disks that a member has had. The first is 1; a lost disk makes the next.
type Incarnation uint32

// Member is one replica of a view.
type Member struct {
	ID      MemberID `json:"id"`
	Site    string   `json:"site"`
	Address string   `json:"address"` // where its peers reach it, host:port
	// Disk names the empty disk that the member was founded on, or with which it came into a joint view. A
	// member whose disk is the named one votes although it holds nothing yet: no answer of it was ever counted.
	// Every other empty disk joins first (replica/protocol/member).
	Disk string `json:"disk,omitempty"`
	// Joining and Leaving mark the change of a joint view: the member belongs to the view after it, or to the
	// one before it, only.
	Joining bool `json:"joining,omitempty"`
	Leaving bool `json:"leaving,omitempty"`
}

// View is a membership of the cluster. Its JSON is what members keep on disk and, as YAML, what people read in the
// operator's record; a digest is made of it.
type View struct {
	Cluster string   `json:"cluster"` // the cluster's identity; views of another cluster are refused
	Epoch   uint64   `json:"epoch"`   // grows with every change of membership, from 1
	Members []Member `json:"members"`
	// Issued is the highest ID that was ever given to a member, so that none is given twice. Zero stands for
	// the highest of Members.
	Issued MemberID `json:"issued"`
	// Since is the epoch of the plain view that first had the members before the change, or all of them in a
	// plain view. What was voted on in earlier epochs was finished by the change that led to it. Zero: there was no
	// such change.
	Since uint64 `json:"since,omitempty"`
	// Partitions and Witnesses are there if the protocol has masters.
	Partitions []Partition `json:"partitions,omitempty"`
	Witnesses  []Witness   `json:"witnesses,omitempty"`
	// Founded is how many shards the cluster was founded with; partitions behind those were split off since (Shard).
	// Zero: all partitions that there are or, without masters, nobody noted it.
	Founded int `json:"founded,omitempty"`
	// Level is that of the cluster: which messages and records its members may use. A version of the program knows all
	// levels up to its own (MaxLevel), so members of different versions live together at the level of the oldest;
	// another level comes with another view, as a change of members does, once all know it. 0 is the first.
	Level uint32 `json:"level,omitempty"`
}

// MaxLevel is the highest level that this version knows. A view of a higher one is refused.
const MaxLevel = 0

// MaxEpoch bounds epochs, so that another one can always follow: a change a second takes millions of years to it.
const MaxEpoch = 1 << 48

// MaxEpochsMissed is how many epochs a member may have missed when it is told the next view: a change a second in a
// hundred years.
const MaxEpochsMissed = 1 << 32

// validateNumbers reports an epoch, term or ID that nobody can have counted up to. Those of the past are no later than
// the view's.
func (v View) validateNumbers() error {
	switch {
	case v.Epoch > MaxEpoch:
		return fmt.Errorf("view: epoch %d is above %d: no changes can have led to it", v.Epoch, uint64(MaxEpoch))
	case v.Since > v.Epoch:
		return fmt.Errorf("view: since is epoch %d, which is after the view's epoch %d", v.Since, v.Epoch)
	case v.Issued > MaxMemberID:
		return fmt.Errorf("view: the highest id ever issued, %d, is above %d", v.Issued, MaxMemberID)
	}
	for i, p := range v.Partitions {
		if p.Term > MaxEpoch || p.Split > MaxEpoch {
			return fmt.Errorf("view: partition %d has a term above %d: no changes can have led to it",
				i, uint64(MaxEpoch))
		}
	}
	return nil
}

// Validate reports what makes a view unusable.
func (v View) Validate() error {
	if v.Cluster == "" {
		return fmt.Errorf("view: the cluster has no identity")
	}
	if v.Epoch == 0 {
		return fmt.Errorf("view: epochs start at 1")
	}
	if len(v.Members) == 0 {
		return fmt.Errorf("view: no members")
	}
	for i, m := range v.Members {
		if m.ID < 1 || m.ID > MaxMemberID {
			return fmt.Errorf("view: member %d is outside 1..%d", m.ID, MaxMemberID)
		}
		if slices.IndexFunc(v.Members, func(o Member) bool { return o.ID == m.ID }) != i {
			return fmt.Errorf("view: member %d is named twice", m.ID)
		}
		if m.Joining && m.Leaving {
			return fmt.Errorf("view: member %d joins and leaves at once", m.ID)
		}
	}
	if v.Level > MaxLevel {
		return fmt.Errorf("view: the cluster is at level %d, and this version knows levels up to %d: run a newer "+
			"version", v.Level, MaxLevel)
	}
	if err := v.validateNumbers(); err != nil {
		return err
	}
	if v.Before().Size() == 0 || v.After().Size() == 0 {
		return fmt.Errorf("view: the change of epoch %d has nobody on one of its sides", v.Epoch)
	}
	return v.validatePartitions()
}

// Joint reports whether members are changing.
func (v View) Joint() bool {
	return slices.ContainsFunc(v.Members, func(m Member) bool { return m.Joining || m.Leaving })
}

// Before is the plain view with the members before the change, of the same epoch; of a plain view, the view itself.
func (v View) Before() View { return v.side(func(m Member) bool { return !m.Joining }) }

// After is the plain view with the members after the change, of the same epoch; of a plain view, the view itself.
func (v View) After() View { return v.side(func(m Member) bool { return !m.Leaving }) }

// Sides is the views of which every quorum has to hold one: those before and after a change, or the plain view itself.
func (v View) Sides() []View {
	if !v.Joint() {
		return []View{v}
	}
	return []View{v.Before(), v.After()}
}

// side is one of the two views; that of a plain view shares its list of members.
func (v View) side(has func(Member) bool) View {
	if !v.Joint() {
		return v
	}
	members := make([]Member, 0, len(v.Members))
	for _, m := range v.Members {
		if has(m) {
			m.Joining, m.Leaving = false, false
			members = append(members, m)
		}
	}
	v.Members = members
	return v
}

// Quorum reports whether a set of members is a quorum: a majority, in a joint view one of each side.
func (v View) Quorum(has func(MemberID) bool) bool {
	return v.each(has, View.Majority)
}

// Meets reports whether a set of members has one in common with every quorum of v: in a joint view, with every
// majority of either side.
func (v View) Meets(has func(MemberID) bool) bool {
	return v.each(has, func(side View) int { return side.Size() - side.Majority() + 1 })
}

// each reports whether a set of members has as many of each side as that side needs.
func (v View) each(has func(MemberID) bool, needs func(side View) int) bool {
	for _, side := range v.Sides() {
		n := 0
		for i := range side.Members {
			if has(side.Members[i].ID) {
				n++
			}
		}
		if n < needs(side) {
			return false
		}
	}
	return true
}

// Transfers reports whether a member of a joint view has to fetch the state of those before the change: every one
// that joins, and the others too if so many leave that what a majority held could be left with less than one.
func (v View) Transfers(id MemberID) bool {
	i := v.Index(id)
	if i < 0 || v.Members[i].Leaving {
		return false
	}
	return v.Members[i].Joining ||
		!v.Covered(func(id MemberID) bool { return v.Members[v.Index(id)].Joining }, func(MemberID) bool {
			return true
		})
}

// Covered reports whether everything that ended before a joint view is held by a majority of the members after the
// change: those that have fetched the state of a majority before it, and those of any such majority that stay and have
// settled what they had voted on. Fetched is a part of settled. It is what the change may be finished on.
func (v View) Covered(fetched, settled func(MemberID) bool) bool {
	before, after := v.Before(), v.After()
	holders, others := 0, before.Size()
	for _, m := range after.Members {
		switch {
		case fetched(m.ID):
			holders++
		case settled(m.ID) && before.Index(m.ID) >= 0:
			others-- // the rest of before is where a majority may hide from those that stay
		}
	}
	return holders+max(0, before.Majority()-others) >= after.Majority()
}

// LastIssued is the highest ID that was ever given to a member or a witness.
func (v View) LastIssued() MemberID {
	last := v.Issued
	for _, m := range v.Members {
		last = max(last, m.ID)
	}
	for _, w := range v.Witnesses {
		last = max(last, w.ID)
	}
	return last
}

// Digest tells views of the same epoch apart: a member that holds an epoch refuses the same epoch with
// another digest.
func (v View) Digest() string {
	v.Issued = v.LastIssued()
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Index is the position of a member in the view, or -1.
func (v View) Index(id MemberID) int {
	for i := range v.Members { // by reference: it is asked for each message
		if v.Members[i].ID == id {
			return i
		}
	}
	return -1
}

// IDs are those of the members, in their order.
func (v View) IDs() (ids []MemberID) {
	for _, m := range v.Members {
		ids = append(ids, m.ID)
	}
	return ids
}

// Sites are those of the members, in their order.
func (v View) Sites() (sites []string) {
	for _, m := range v.Members {
		if !slices.Contains(sites, m.Site) {
			sites = append(sites, m.Site)
		}
	}
	return sites
}

// Size is the number of members, n in the papers.
func (v View) Size() int { return len(v.Members) }

// Faults is how many members may be lost with the view still available, f in the papers. This and what follows
// speak of plain views; a joint one has two sides.
func (v View) Faults() int { return (len(v.Members) - 1) / 2 }

// Majority is the size of a majority quorum: any two intersect. It is f + 1 when n = 2f + 1.
func (v View) Majority() int { return len(v.Members)/2 + 1 }

// FastQuorum is the size of a fast quorum, coordinator included, where f members may be lost at once: ⌊n/2⌋ + f, and no
// less than a majority (Atlas, EuroSys '20, section 3). Without the coordinator and f - 1 others, ⌊n/2⌋ of it are left,
// which with the coordinator are a majority; recovery rests on that (docs/protocols.md, EPaxos). With 0, as with what
// is no minority, f is Faults, and the size is that of EPaxos' simple fast quorum: all members but one.
func (v View) FastQuorum(f int) int {
	if most := v.Faults(); f == 0 || f > most {
		f = most
	}
	return max(len(v.Members)/2+f, v.Majority())
}

// ValidatedQuorum is the size of a fast quorum, coordinator included, where any minority may be lost and recovery looks
// at what interferes (docs/protocols.md, EPaxos): all members but two, and no less than a majority. With up to seven
// members that is EPaxos' f + ⌊(f + 1)/2⌋ (SOSP '13, section 4.3).
func (v View) ValidatedQuorum() int { return max(len(v.Members)-2, v.Majority()) }
