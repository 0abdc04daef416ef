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

// next decides on the step to take, as far as members told. It never makes a view before a quorum holds the one
// before, but to abandon a change.
func (r *record) next(reports map[view.MemberID]report) (step, error) {
	c := r.Change
	var partitions step
	if r.View.Epoch > 0 && r.partitioned() {
		if partitions = r.arrange(reports); partitions.view.Epoch > 0 {
			return partitions, nil
		}
	}
	switch {
	case r.View.Epoch == 0:
		return r.found(reports)
	case r.View.Joint() && r.partitioned():
		return step{waits: partitions.waits}, nil
	case r.View.Joint():
		return r.inJoint(reports)
	case c == nil:
		return step{waits: partitions.waits}, nil
	case c.Abandoned == "" && !r.changed():
		return r.begin(reports)
	}
	if waits := r.held(reports); waits != "" {
		return step{waits: waits}, nil
	}
	return step{over: true}, nil
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

// begin makes the joint view, once the newcomers named their disks.
func (r *record) begin(reports map[view.MemberID]report) (step, error) {
	c := r.Change
	if why := r.failed(reports); why != "" {
		return step{view: r.View, abandoned: why}, nil
	}
	if !membership.Committed(r.View, holders(reports)) {
		return step{waits: fmt.Sprintf("a quorum to hold the view of epoch %d", r.View.Epoch)}, nil
	}
	var newcomers []membership.Founder
	for _, id := range c.Join {
		if !reports[id].waiting || reports[id].disk == "" {
			return step{waits: r.label(id) + " to name its empty disk"}, nil
		}
		newcomers = append(newcomers, r.find(id).founder(reports[id].disk))
	}
	v, err := membership.Change(r.View, newcomers, c.Leave)
	return step{view: v}, err
}

// inJoint finishes or abandons the change. Newcomers are waited for, and others that are not lost.
func (r *record) inJoint(reports map[view.MemberID]report) (step, error) {
	why := r.failed(reports)
	if r.Change != nil && r.Change.Abandoned != "" {
		why = r.Change.Abandoned
	}
	if why != "" {
		v, err := membership.Abandon(r.View)
		return step{view: v, abandoned: why}, err
	}
	standings := map[view.MemberID]membership.Standing{}
	for id, report := range reports { // order is irrelevant: a map from a map
		standings[id] = report.standing
	}
	safe, rest := membership.Finishable(r.View, r.fragments, standings)
	rest = slices.DeleteFunc(rest, func(id view.MemberID) bool {
		return safe && reports[id].lost() && !r.View.Members[r.View.Index(id)].Joining
	})
	switch {
	case len(rest) > 0:
		return step{waits: r.labels(rest) + " to do its part"}, nil
	case !safe:
		return step{waits: fmt.Sprintf("a quorum to hold the view of epoch %d", r.View.Epoch)}, nil
	}
	v, err := membership.Finish(r.View)
	return step{view: v}, err
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
