package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// silences remembers since when members say nothing. Another operator begins anew: it has asked no one yet.
type silences struct {
	since sync.Map // of map[view.MemberID]time.Time, by the name of the cluster
}

// note remembers who of a cluster's members is silent, and tells how long each is.
func (s *silences) note(cluster types.NamespacedName, members []world.Member, now time.Time) {
	known, _ := s.since.Load(cluster)
	before, _ := known.(map[view.MemberID]time.Time)
	after := map[view.MemberID]time.Time{}
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
	s.since.Store(cluster, after)
}

// forget drops what is remembered of a cluster that is no more.
func (s *silences) forget(cluster types.NamespacedName) { s.since.Delete(cluster) }
