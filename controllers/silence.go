package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// silences remembers since when members say nothing. Another operator begins anew: it has asked nobody yet.
type silences struct {
	mu    sync.Mutex
	since map[types.NamespacedName]map[view.MemberID]time.Time
}

// observe notes who of a cluster's members is silent, and tells how long each is.
func (s *silences) observe(cluster types.NamespacedName, members []world.Member, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := s.since[cluster], map[view.MemberID]time.Time{}
	for i := range members {
		m := &members[i]
		if m.Report != nil {
			continue
		}
		since, known := before[m.ID]
		if !known {
			since = now
		}
		after[m.ID], m.SilentFor = since, now.Sub(since)
	}
	if s.since == nil {
		s.since = map[types.NamespacedName]map[view.MemberID]time.Time{}
	}
	s.since[cluster] = after
}

// forget drops what is remembered of a cluster that is no more.
func (s *silences) forget(cluster types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, cluster)
}
