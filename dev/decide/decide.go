// Package decide is how an embedded cluster gets from the view that it has to that which it is to have: the next step,
// from what is recorded and what members say. It decides as the operator does, by the package membership.
package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Situation is what decisions are made from: the record, and what members and witnesses said a short while ago.
type Situation struct {
	*record.Record
	Reports map[view.MemberID]Report // by the member's ID, or that of a dedicated witness
	// Distances are those that the manifest declares: masters without a home that was given, backups and witnesses are
	// placed by them. None: it declares none.
	Distances membership.Distances
}

// Report is what is known of a member at a moment, or of a dedicated witness.
type Report struct {
	View    view.View               // that it says it holds; epoch 0: none
	Disk    string                  // empty: it has not told
	Waiting bool                    // for its first view
	Answer  membership.MemberReport // of the view that it holds, and of its part in a change
	Running bool                    // its process runs
	Serves  bool                    // it votes, and reaches a quorum
	Crashed string                  // why its process, or its witness's, ended by itself; empty: neither did
	Silent  bool                    // nothing was heard of it for a while
	// Member is what it says of its partitions and of whom it hears; nil: it does not answer, or has just started.
	Member *membership.MemberReport
	// Witness is what the witness beside it says, or the dedicated one; nil: there is none, or it does not answer.
	Witness *membership.WitnessReport
}

// Lost is whether nothing is to be expected of the member as things are.
func (r Report) Lost() bool { return !r.Running || r.Silent }

// Step is what to do next. Its zero value is nothing.
type Step struct {
	View      view.View // to record, and to tell from then on; epoch 0: none
	Abandoned string    // to note with it
	Over      bool      // the change is
	Because   []string  // why, for each partition that it changes
	Waits     string    // for what, in words
}

// Next decides on the step to take, as far as members told: it is the package membership that decides on views.
func (s Situation) Next() (Step, error) {
	if s.View.Epoch == 0 {
		return s.found()
	}
	c, why := s.Change, s.givenUp()
	if why != "" && c.Abandoned == "" && (!s.View.Joint() || s.Partitioned()) {
		return Step{View: s.View, Abandoned: why}, nil // it is noted before anything is done about it
	}
	waits := "a quorum of the members to connect and to say whom they hear"
	if s.connected() {
		d := membership.Decide(s.snapshot())
		waits = s.waits(d)
		if d.Err != nil || d.Changed() {
			step := Step{View: d.Next, Abandoned: why, Waits: waits}
			for _, line := range d.Lines() {
				step.Because = append(step.Because, s.names(line))
			}
			return step, d.Err
		}
	}
	if c == nil || s.View.Joint() || s.begins() {
		return Step{Waits: waits}, nil
	}
	behind := s.behind()
	return Step{Waits: behind, Over: behind == ""}, nil
}

// begins reports whether a change that is wanted has not begun.
func (s Situation) begins() bool {
	return s.Change != nil && s.Change.Abandoned == "" && !s.View.Joint() && !s.Changed()
}

// givenUp is why the members before a change that is not over are wanted again; empty: they are not.
func (s Situation) givenUp() string {
	switch c := s.Change; {
	case c != nil && c.Abandoned != "":
		return c.Abandoned
	case s.View.Joint() || s.begins():
		return s.failed()
	}
	return ""
}

// connected reports whether enough has been heard for a decision. Where there are partitions, a quorum says whom it
// hears.
func (s Situation) connected() bool {
	there := s.View
	if s.Change != nil && s.Change.Abandoned != "" {
		there = s.View.Before() // those after the change may be gone
	}
	return !s.Partitioned() || there.Quorum(func(id view.MemberID) bool { return s.Reports[id].Member != nil })
}

// snapshot is what decisions are made from. A change that can be finished does not wait for members that are lost, but
// for newcomers; nobody is hopeless, since whoever is lost can be started again.
func (s Situation) snapshot() membership.Snapshot {
	now := membership.Snapshot{
		View: s.View, Fragments: s.Fragments, Abandon: s.givenUp() != "",
	}
	if s.begins() {
		now.Leave = s.Change.Leave
		for _, id := range s.Change.Join {
			newcomer := s.Find(id).Founder("")
			if s.Reports[id].Waiting {
				newcomer.Disk = s.Reports[id].Disk
			}
			now.Join = append(now.Join, newcomer)
		}
	}
	for _, m := range s.View.Members {
		if s.Reports[m.ID].Lost() && !m.Joining {
			now.Absent = append(now.Absent, m.ID)
		}
	}
	if s.Partitioned() {
		s.addPartitions(&now)
		return now
	}
	for id, report := range s.Reports { // order is irrelevant: each is found by its member
		report.Answer.Member = id
		now.Members = append(now.Members, report.Answer)
	}
	return now
}

// waits says what a decision waits for.
func (s Situation) waits(d membership.Decision) string {
	switch {
	case d.Wait == membership.ForNewcomers:
		return s.Label(d.For[0]) + " to name its empty disk"
	case len(d.For) > 0:
		return s.Labels(d.For) + " to do its part"
	case d.Wait == membership.ForView && s.Change != nil:
		return fmt.Sprintf("a quorum to hold the view of epoch %d", s.View.Epoch)
	}
	return s.names(strings.Join(d.Waits, "; "))
}

// found makes the first view, or finds the one that members of a directory without a record of it hold.
func (s Situation) found() (Step, error) {
	var said []membership.Report
	var founders []membership.Founder
	var unnamed []view.MemberID
	for _, m := range s.Members {
		report := s.Reports[m.ID]
		said = append(said, membership.Report{
			Member: m.ID, View: report.View, Votes: report.View.Epoch > 0, Disk: report.Disk,
		})
		if report.Disk == "" {
			unnamed = append(unnamed, m.ID)
		}
		founders = append(founders, m.Founder(report.Disk))
	}
	var named []view.Witness
	for _, w := range s.witnesses() {
		if w.Disk == "" {
			unnamed = append(unnamed, w.ID)
		}
		named = append(named, w.Witness)
	}
	switch d := membership.Rebuild(said, func(view.MemberID) bool { return false }); {
	case d.Known || d.Err != nil:
		return Step{View: d.View}, d.Err
	case d.View.Epoch > 0:
		return Step{Waits: "members hold a view, and too few have told which"}, nil
	}
	if len(unnamed) > 0 {
		return Step{Waits: s.Labels(unnamed) + " to name its empty disk"}, nil
	}
	v, err := membership.Found(s.Cluster, founders)
	if err == nil && s.Partitioned() {
		v, err = membership.Place(v, named, s.placement(v))
	}
	return Step{View: v}, err
}

// failed is why the change can't come to its end: a newcomer crashed, or a majority of the members after it.
func (s Situation) failed() string {
	if s.Change == nil {
		return ""
	}
	for _, id := range s.Change.Join {
		if why := s.Reports[id].Crashed; why != "" {
			return fmt.Sprintf("%s crashed: %s", s.Label(id), why)
		}
	}
	if !s.View.Joint() {
		return ""
	}
	after := s.View.After()
	var gone []view.MemberID
	for _, m := range after.Members {
		if s.Reports[m.ID].Crashed != "" {
			gone = append(gone, m.ID)
		}
	}
	if after.Quorum(func(id view.MemberID) bool { return !slices.Contains(gone, id) }) {
		return ""
	}
	return fmt.Sprintf("too few of those after it are left: %s crashed", s.Labels(gone))
}

// Changed is whether the view has the members that the change leads to.
func (s Situation) Changed() bool {
	return !slices.ContainsFunc(s.Change.Join, func(id view.MemberID) bool { return s.View.Index(id) < 0 }) &&
		!slices.ContainsFunc(s.Change.Leave, func(id view.MemberID) bool { return s.View.Index(id) >= 0 })
}

// behind says who has yet to take on the view: a quorum of it has to serve, and everybody who is not lost to hold it.
func (s Situation) behind() string {
	var behind []view.MemberID
	for _, m := range s.Members {
		sent := s.View.Index(m.ID) >= 0 || m.ID <= s.View.LastIssued()
		if sent && !s.Reports[m.ID].Lost() && !s.holds(m.ID) {
			behind = append(behind, m.ID)
		}
	}
	switch {
	case len(behind) > 0:
		return fmt.Sprintf("%s to hold the view of epoch %d", s.Labels(behind), s.View.Epoch)
	case !s.View.Quorum(func(id view.MemberID) bool { return s.Reports[id].Serves && s.holds(id) }):
		return fmt.Sprintf("a quorum to serve in epoch %d", s.View.Epoch)
	}
	return ""
}

// holds reports whether a member says that it holds the recorded view.
func (s Situation) holds(id view.MemberID) bool {
	return s.Reports[id].Answer.Digest == s.View.Digest()
}

// Committed reports whether a quorum of the recorded view holds it.
func (s Situation) Committed() bool { return s.View.Quorum(s.holds) }
