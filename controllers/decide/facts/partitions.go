package facts

import (
	"slices"

	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Partitioned reports whether shards have masters, backups and witnesses, and the view names them.
func (s *Seen) Partitioned() bool {
	return s.Cluster.Spec.Partitioned() && len(s.View.Partitions) > 0
}

// Roles are the partitions that a member is master or backup of.
func (s *Seen) Roles(id view.MemberID) (numbers []int) {
	for i, p := range s.View.Partitions {
		if p.Master == id || slices.Contains(p.Backups, id) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// Part is what the master of a partition says of it, in the term of the view, or nil.
func (s *Seen) Part(number int) *world.Part {
	p := s.View.Partitions[number]
	r := s.Report(p.Master)
	if r == nil || number >= len(r.Partitions) || r.Partitions[number].Term != p.Term || !s.Holds(p.Master) {
		return nil
	}
	return &r.Partitions[number]
}

// Served reports whether the master of a partition says that it serves clients.
func (s *Seen) Served(number int) bool {
	part := s.Part(number)
	return part != nil && part.Serving
}
