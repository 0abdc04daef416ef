package views

import (
	"fmt"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/replica/view"
)

// Hopeless says why a member will not do its part in a change, or not in time, to be read after its name; or is empty.
func (s *Views) Hopeless(m view.Member) string {
	if why := s.Lost(m); why != "" {
		return why
	}
	r, pod := s.Report(m.ID), s.Pod(m.ID)
	switch {
	case r != nil && m.Joining && r.Disk != m.Disk:
		return "lost the disk that it joined with"
	case r == nil && pod != nil && !facts.PodReady(pod) && min(s.DownFor(pod),
		s.Member(m.ID).SilentFor) >= s.Settings.LostAfter:
		return s.Silence(m) // the pod alone doesn't tell: one that fetches is not ready either
	}
	return ""
}

// GivenUp says why a member will not vote in a joint view, or not in time, to be read after its name; or is empty. A
// newcomer's disk is a new one by its nature.
func (s *Views) GivenUp(m view.Member) string {
	if why := s.Hopeless(m); why != "" || m.Joining || s.Remains(m) {
		return why
	}
	return "lost what it held: its disk is a new one"
}

// NotWanted says why no one asks for the members after the change of a joint view any more, or is empty.
func (s *Views) NotWanted() string {
	after := map[string]int{}
	for _, m := range s.View.After().Members {
		after[m.Site]++
	}
	for _, m := range s.View.Members {
		site := s.SiteOf(m)
		switch {
		case m.Joining && (site == nil || after[m.Site] > site.MemberCount()):
			return fmt.Sprintf("%s is not asked for any more", message.Member(m))
		case m.Joining && s.Misplaced(m) != "":
			return fmt.Sprintf("%s %s, as is asked for now", message.Member(m), s.Misplaced(m))
		case m.Leaving && site != nil && after[m.Site] < site.MemberCount() && s.Lost(m) == "" && s.Misplaced(m) == "":
			return fmt.Sprintf("%s is asked for again", message.Member(m))
		}
	}
	return ""
}
