package store

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// divideBytes bounds, roughly, what Divide has persisted at once.
const divideBytes = 1 << 20

// Divide readies a member's disks for the partitions of a view that were split off others (section 3.6). It has to have
// returned before the first of them is started in that view; interrupted, it is done anew. It returns how many
// registers were given to new partitions.
//
// A split is the recovery of two partitions from one: the new one begins with all that the disk has of the other as it
// was before the term of the split, its log, what it knows of terms and leases, and what RIFL remembers, so that each
// member stands to the new one as it stood to the other. Witnesses know nothing of it, since the term before a split
// has none (membership.Decide).
//
// A view that few hold may be forgotten, and the split with it. So what is given stays where it was until this member
// has taken part in a term of after the split, and what was given for a split that was forgotten is given anew.
func Divide(v view.View, disks protocol.Disks) (given int, err error) {
	for _, d := range v.Divided() {
		s := &division{Division: d, disks: disks, founded: v.FoundedPartitions()}
		s.from, s.to = half{disks.Journal(d.Parent), d.Parent}, half{disks.Journal(d.Child), d.Child}
		if err := s.divide(); err != nil {
			return given, fmt.Errorf("split partition %d off %d: %w", d.Child, d.Parent, err)
		}
		given += s.given
	}
	return given, nil
}

// division is the split of one partition at one member.
type division struct {
	view.Division
	disks    protocol.Disks
	founded  int
	from, to half // the parent and the child
	given    int
}

// half is one of the two partitions at the member.
type half struct {
	*protocol.Journal
	partition int
}

func (s *division) persist(h half) error { return s.disks.Persist(h.partition, h.Journal) }

func (s *division) divide() error {
	parent, err := readOwn(s.from.Journal)
	if err != nil || parent == nil {
		return err
	}
	child, err := readOwn(s.to.Journal)
	if err != nil {
		return err
	}
	entered := child != nil && child.Term >= s.Term
	if parent.Term < s.Term && !entered {
		if err := s.give(parent); err != nil {
			return err
		}
	}
	if parent.Shards <= uint32(s.Child) && parent.Term >= s.Term {
		return s.drop(parent)
	}
	return nil
}

// give copies what the parent has to the child. The record of its part comes last: without it, the disk has no part
// yet. What is being copied from a master is none: the child begins with nothing, as a learner.
func (s *division) give(parent *peerv1.PartitionRecord) error {
	err := s.visit(s.to, s.to, func(key, _ []byte) {
		if !ofDisk(key) {
			s.to.Delete(key)
		}
	})
	if err != nil {
		return err
	}
	if parent.Copying {
		return s.persist(s.to)
	}
	err = s.visit(s.from, s.to, func(key, value []byte) {
		isRegister := key[0] == registerRecord
		if key[0] == ownRecord || ofDisk(key) || isRegister && !s.gives(key[1:]) {
			return
		}
		if isRegister {
			s.given++
		}
		s.to.Put(key, value)
	})
	if err != nil {
		return err
	}
	child := parent.CloneVT()
	child.Shards = uint32(s.Child) + 1
	return s.record(s.to, child)
}

// drop removes from the parent what the child has.
func (s *division) drop(parent *peerv1.PartitionRecord) error {
	err := s.visit(s.from, s.from, func(key, _ []byte) {
		if key[0] == registerRecord && s.gives(key[1:]) {
			s.from.Delete(key)
		}
	})
	if err != nil {
		return err
	}
	parent.Shards = uint32(s.Child) + 1
	return s.record(s.from, parent)
}

// gives reports whether the parent gives a key away in this split or, if it was not dropped, did in an earlier one.
func (s *division) gives(key []byte) bool {
	return view.Shard(s.disks.Hash(key), s.founded, s.Child+1) == s.Child
}

// visit calls visit for all records of a half, and has what that puts into a journal persisted now and then.
func (s *division) visit(h, changed half, visit func(key, value []byte)) error {
	for after, done := []byte(nil), false; !done; {
		var records []*peerv1.Record
		records, done = page(h.Journal, after, divideBytes)
		for _, r := range records {
			visit(r.Key, r.Value)
			after = r.Key
		}
		if err := s.persist(changed); err != nil {
			return err
		}
	}
	return nil
}

// record sets what the member knows of its part in a partition.
func (s *division) record(h half, own *peerv1.PartitionRecord) error {
	raw, err := own.MarshalVT()
	if err != nil {
		return err
	}
	h.Put(ownKey(), raw)
	return s.persist(h)
}
