package dev

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// change is a change of members that was asked for. It is over when the view has the members that it leads to, a
// quorum of them serves, and the others are told.
type change struct {
	Join  []view.MemberID `json:"join,omitempty"`
	Leave []view.MemberID `json:"leave,omitempty"`
	// Abandoned says why the members before the change are wanted again; empty: they are not.
	Abandoned string `json:"abandoned,omitempty"`
}

// report is what is known of a member at a moment.
type report struct {
	view     view.View // that it says it holds; epoch 0: none
	disk     string    // empty: it has not told
	waiting  bool      // for its first view
	standing membership.Standing
	running  bool   // its process runs
	serves   bool   // it votes, and reaches a quorum
	crashed  string // why its process, or its witness's, ended by itself; empty: neither did
	silent   bool   // nothing was heard of it for a while
	// told is what it says of its partitions and of whom it hears; nil: it does not answer, or has just started.
	told    *membership.MemberReport
	witness *membership.WitnessReport // of the witness beside it; nil: there is none, or it does not answer
}

// lost is whether nothing is to be expected of the member as things are.
func (r report) lost() bool { return !r.running || r.silent }

// step is what to do next. Its zero value is nothing.
type step struct {
	view      view.View // to record, and to tell from then on; epoch 0: none
	abandoned string    // to note with it
	over      bool      // the change is
	because   []string  // why, for each partition that it changes
	waits     string    // for what, in words
}

// next decides on the step to take, as far as members told: it is the package membership that decides on views.
func (r *record) next(reports map[view.MemberID]report) (step, error) {
	if r.View.Epoch == 0 {
		return r.found(reports)
	}
	c, why := r.Change, r.givenUp(reports)
	if why != "" && c.Abandoned == "" && (!r.View.Joint() || r.partitioned()) {
		return step{view: r.View, abandoned: why}, nil // it is noted before anything is done about it
	}
	waits := "a quorum of the members to connect and to say whom they hear"
	if r.connected(reports) {
		d := membership.Decide(r.snapshot(reports))
		waits = r.waits(d)
		if d.Err != nil || d.Changed() {
			s := step{view: d.Next, abandoned: why, waits: waits}
			for _, line := range d.Changes {
				s.because = append(s.because, r.names(line))
			}
			return s, d.Err
		}
	}
	if c == nil || r.View.Joint() || r.begins() {
		return step{waits: waits}, nil
	}
	if waits := r.held(reports); waits != "" {
		return step{waits: waits}, nil
	}
	return step{over: true}, nil
}

// begins reports whether a change that is wanted has not begun.
func (r *record) begins() bool {
	return r.Change != nil && r.Change.Abandoned == "" && !r.View.Joint() && !r.changed()
}

// givenUp is why the members before a change that is not over are wanted again; empty: they are not.
func (r *record) givenUp(reports map[view.MemberID]report) string {
	switch c := r.Change; {
	case c != nil && c.Abandoned != "":
		return c.Abandoned
	case r.View.Joint() || r.begins():
		return r.failed(reports)
	}
	return ""
}

// connected reports whether enough has been heard for a decision. Where there are partitions, a quorum says whom it
// hears.
func (r *record) connected(reports map[view.MemberID]report) bool {
	there := r.View
	if r.Change != nil && r.Change.Abandoned != "" {
		there = r.View.Before() // those after the change may be gone
	}
	return !r.partitioned() || there.Quorum(func(id view.MemberID) bool { return reports[id].told != nil })
}

// snapshot is what decisions are made from. A change that can be finished does not wait for members that are lost, but
// for newcomers; nobody is hopeless, since whoever is lost can be started again.
func (r *record) snapshot(reports map[view.MemberID]report) membership.Snapshot {
	s := membership.Snapshot{
		View: r.View, Fragments: r.fragments, Abandon: r.givenUp(reports) != "", Standings: map[view.MemberID]membership.Standing{},
	}
	if r.begins() {
		s.Leave = r.Change.Leave
		for _, id := range r.Change.Join {
			newcomer := r.find(id).founder("")
			if reports[id].waiting {
				newcomer.Disk = reports[id].disk
			}
			s.Join = append(s.Join, newcomer)
		}
	}
	for id, report := range reports { // order is irrelevant: a map from a map
		s.Standings[id] = report.standing
	}
	for _, m := range r.View.Members {
		if reports[m.ID].lost() && !m.Joining {
			s.Absent = append(s.Absent, m.ID)
		}
	}
	if r.partitioned() {
		r.addPartitions(&s, reports)
	}
	return s
}

// waits says what a decision waits for.
func (r *record) waits(d membership.Decision) string {
	switch {
	case d.Wait == membership.ForNewcomers:
		return r.label(d.For[0]) + " to name its empty disk"
	case len(d.For) > 0:
		return r.labels(d.For) + " to do its part"
	case d.Wait == membership.ForView && r.Change != nil:
		return fmt.Sprintf("a quorum to hold the view of epoch %d", r.View.Epoch)
	}
	return r.names(strings.Join(d.Waits, "; "))
}

// found makes the first view, or finds the one that members of a directory without a record of it hold.
func (r *record) found(reports map[view.MemberID]report) (step, error) {
	var said []membership.Report
	var founders []membership.Founder
	var unnamed []view.MemberID
	for _, m := range r.Members {
		report := reports[m.ID]
		if report.view.Epoch > 0 {
			said = append(said, membership.Report{Member: m.ID, View: report.view})
		}
		if report.disk == "" {
			unnamed = append(unnamed, m.ID)
		}
		founders = append(founders, m.founder(report.disk))
	}
	if len(said) > 0 {
		v, known, err := membership.Rebuild(said)
		if err == nil && !known {
			return step{waits: "members hold a view, and too few have told which"}, nil
		}
		return step{view: v}, err
	}
	if len(unnamed) > 0 {
		return step{waits: r.labels(unnamed) + " to name its empty disk"}, nil
	}
	v, err := membership.Found(r.Cluster, founders)
	if err == nil && r.partitioned() {
		return r.place(v, reports)
	}
	return step{view: v}, err
}

func (m memberRecord) founder(disk string) membership.Founder {
	return membership.Founder{ID: m.ID, Site: m.Site, Address: loopback(m.Ports.Peer), Disk: disk}
}

// failed is why the change can't come to its end: a newcomer crashed, or a majority of the members after it.
func (r *record) failed(reports map[view.MemberID]report) string {
	if r.Change == nil {
		return ""
	}
	for _, id := range r.Change.Join {
		if why := reports[id].crashed; why != "" {
			return fmt.Sprintf("%s crashed: %s", r.label(id), why)
		}
	}
	if !r.View.Joint() {
		return ""
	}
	after := r.View.After()
	var gone []view.MemberID
	for _, m := range after.Members {
		if reports[m.ID].crashed != "" {
			gone = append(gone, m.ID)
		}
	}
	if after.Quorum(func(id view.MemberID) bool { return !slices.Contains(gone, id) }) {
		return ""
	}
	return fmt.Sprintf("too few of those after it are left: %s crashed", r.labels(gone))
}

// changed is whether the view has the members that the change leads to.
func (r *record) changed() bool {
	return !slices.ContainsFunc(r.Change.Join, func(id view.MemberID) bool { return r.View.Index(id) < 0 }) &&
		!slices.ContainsFunc(r.Change.Leave, func(id view.MemberID) bool { return r.View.Index(id) >= 0 })
}

// held says who has yet to take on the view: a quorum of it has to serve, and everybody who is not lost to hold it.
func (r *record) held(reports map[view.MemberID]report) string {
	var behind []view.MemberID
	for _, m := range r.Members {
		report := reports[m.ID]
		told := r.View.Index(m.ID) >= 0 || m.ID <= r.View.LastIssued()
		if told && !report.lost() && report.standing.Digest != r.View.Digest() {
			behind = append(behind, m.ID)
		}
	}
	switch {
	case len(behind) > 0:
		return fmt.Sprintf("%s to hold the view of epoch %d", r.labels(behind), r.View.Epoch)
	case !r.View.Quorum(func(id view.MemberID) bool {
		return reports[id].serves && reports[id].standing.Digest == r.View.Digest()
	}):
		return fmt.Sprintf("a quorum to serve in epoch %d", r.View.Epoch)
	}
	return ""
}

func holders(reports map[view.MemberID]report) map[view.MemberID]string {
	digests := map[view.MemberID]string{}
	for id, report := range reports { // order is irrelevant: a map from a map
		digests[id] = report.standing.Digest
	}
	return digests
}

// labels names members to people; label knows witnesses too.
func (r *record) labels(ids []view.MemberID) string {
	var names []string
	for _, id := range ids {
		names = append(names, r.label(id))
	}
	return strings.Join(names, ", ")
}
