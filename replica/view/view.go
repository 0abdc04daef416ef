// Package view says who is a member of a cluster, where, and in which epoch, and what a quorum of them is.
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
	ID      MemberID
	Site    string
	Address string // where its peers reach it, host:port
	// Disk names the empty disk that the member was founded on. A member whose disk is the named one votes
	// although it holds nothing yet; every other empty disk joins first (replica/protocol/member). It is
	// empty for a member that came later than the first view.
	Disk string
}

// View is a membership of the cluster.
type View struct {
	Cluster string // the cluster's identity; views of another cluster are refused
	Epoch   uint64 // grows with every change of membership, from 1
	Members []Member
	// Issued is the highest ID that was ever given to a member, so that none is given twice. Zero stands for
	// the highest of Members.
	Issued MemberID
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
	}
	return nil
}

// LastIssued is the highest ID that was ever given to a member.
func (v View) LastIssued() MemberID {
	last := v.Issued
	for _, m := range v.Members {
		last = max(last, m.ID)
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
	return slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == id })
}

// Size is the number of members, n in the papers.
func (v View) Size() int { return len(v.Members) }

// Faults is how many members may be lost with the view still available, f in the papers.
func (v View) Faults() int { return (len(v.Members) - 1) / 2 }

// Majority is the size of a majority quorum: any two intersect. It is f + 1 when n = 2f + 1.
func (v View) Majority() int { return len(v.Members)/2 + 1 }

// FastQuorum is the size of EPaxos' simple fast quorum, coordinator included: all but one member, and
// never less than a majority. Any majority without the coordinator meets it in f members, which with the
// coordinator are a majority again; recovery rests on that (docs/protocols.md, Gryff).
func (v View) FastQuorum() int { return max(len(v.Members)-1, v.Majority()) }
