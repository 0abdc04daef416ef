package dev

import (
	"slices"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// settleRTTs and settleLeast say how long members take to hear each other in a new view: they connect, say hello and
// ping, and a partition that recovers asks its witnesses and copies to its backups meanwhile.
const (
	settleRTTs  = 4
	settleLeast = 500 * time.Millisecond
)

// settling is that time in the network of a manifest.
func settling(spec v1alpha1.GeoRegisterClusterSpec) time.Duration {
	farthest := time.Duration(0)
	all := sites(spec)
	for i, a := range all {
		for _, b := range all[i+1:] {
			farthest = max(farthest, spec.RTT(a, b))
		}
	}
	return settleLeast + settleRTTs*farthest
}

// reachability judges what members say of whom they hear, over time. One that has just taken on a view hears nobody for
// a moment: if that counted, each view would give the reason for the next.
type reachability struct {
	settle time.Duration
	of     map[view.MemberID]*heard
}

// heard is what one process said.
type heard struct {
	pid     int
	boot    uint32
	since   time.Time // when the process was first seen
	last    map[view.MemberID]time.Time
	reached []view.MemberID // when it was asked last
}

func newReachability(settle time.Duration) *reachability {
	return &reachability{settle: settle, of: map[view.MemberID]*heard{}}
}

// judge completes whom a member hears with those that it heard a short while ago, but for those that are known to be
// lost: it takes the member longer to find out. It returns nil for a process that started a moment ago: it can't know.
func (r *reachability) judge(
	o Observation, said *membership.MemberReport, lost []view.MemberID, now time.Time,
) *membership.MemberReport {
	by := r.of[o.ID]
	if by == nil || by.pid != o.PID {
		by = &heard{pid: o.PID, boot: o.Status.Boot, since: now, last: map[view.MemberID]time.Time{}}
		r.of[o.ID] = by
	}
	between := len(o.Status.Peers) == 0 // it is just taking on a view, and names nobody
	if by.boot != o.Status.Boot || between {
		by.boot = o.Status.Boot
		for _, id := range by.reached { // it has to reach them again
			by.last[id] = now
		}
	}
	for _, id := range said.Hears {
		by.last[id] = now
	}
	if !between {
		by.reached = said.Hears
	}
	for _, id := range lost {
		delete(by.last, id)
	}
	said.Hears = nil
	for id, last := range by.last {
		if now.Sub(last) < r.settle {
			said.Hears = append(said.Hears, id) // sorted below
		}
	}
	slices.Sort(said.Hears)
	if now.Sub(by.since) < r.settle {
		return nil
	}
	return said
}
