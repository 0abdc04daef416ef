package dev

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/decide"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const (
	// restEvery is the pause between two looks at a cluster in which nothing changes.
	restEvery = 200 * time.Millisecond
	// silentAfter is how long a process that runs may tell nothing before a change goes on without it.
	silentAfter = 5 * time.Second
	// recoverWithin is what a recovery may take beside connecting, most of it until the leases of the former master
	// have ended.
	recoverWithin = 3 * time.Second
)

// operator founds a cluster, and takes each change of its members from one step to the next: it observes, decides and
// applies. All that it knows is in the directory's record and in what members say, so another process can go on with
// it.
type operator struct {
	spec      v1alpha1.GeoRegisterClusterSpec
	cluster   string // its name, which the record has too: no lock guards this one
	directory *record.Directory
	processes *processes
	say       func(format string, args ...any) // tells whoever watches a line
	settle    time.Duration                    // how long members take to hear each other in a new view
	woken     chan struct{}                    // has it look again at once

	mu       sync.Mutex // one command at a time; it guards the record and the links too
	progress *progress  // of the latest change of members; nil: there was none
	waiting  string     // for what the partitions wait; empty: for nothing
	adopted  time.Time  // when the view was recorded, in this run
}

func newOperator(o Options, d *record.Directory) *operator {
	say := func(format string, args ...any) {
		if o.Report != nil {
			o.Report(fmt.Sprintf(format, args...))
		}
	}
	spec := o.Manifest.Spec
	return &operator{
		spec: spec, cluster: d.Record.Cluster, directory: d, say: say, settle: settling(spec),
		woken:     make(chan struct{}, 1),
		processes: &processes{binary: o.Binary, spec: spec, directory: d, links: links{}, say: say},
	}
}

// run observes, decides and applies until the context ends.
func (o *operator) run(ctx context.Context) {
	answered := map[view.MemberID]time.Time{}
	reach := newReachability(o.settle)
	for ctx.Err() == nil {
		observations, reports := o.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		o.mu.Lock() // a command takes a member and the witness beside it at once: neither is to be seen gone alone
		lost := o.processes.lost()
		o.mu.Unlock()
		for _, seen := range observations {
			if seen.Status != nil || answered[seen.ID].IsZero() {
				answered[seen.ID] = time.Now()
			}
			r := reports[seen.ID]
			r.Silent = time.Since(answered[seen.ID]) > silentAfter
			if r.Member != nil {
				r.Member = reach.judge(seen, r.Member, lost, time.Now())
			}
			reports[seen.ID] = r
		}
		o.processes.noteNamed(reports)
		pause := restEvery
		if busy := o.advance(reports, observations); busy {
			pause = pollEvery
		}
		o.apply(ctx, reports)
		select {
		case <-time.After(pause):
		case <-o.woken:
		case <-ctx.Done():
		}
	}
}

// wake has the operator look again at once.
func (o *operator) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// ask asks all members and witnesses how they are.
func (o *operator) ask(ctx context.Context) ([]Observation, map[view.MemberID]decide.Report) {
	var witnesses map[view.MemberID]*membership.WitnessReport
	var asking sync.WaitGroup
	asking.Go(func() { witnesses = o.processes.askWitnesses(ctx) })
	observations := o.Observe(ctx)
	asking.Wait()
	reports := map[view.MemberID]decide.Report{}
	for _, seen := range observations {
		r := seen.report()
		r.Witness = witnesses[seen.ID]
		reports[seen.ID] = r
	}
	for _, w := range o.processes.alone() {
		reports[w.id] = decide.Report{Witness: witnesses[w.id], Running: w.running()}
	}
	return observations, reports
}

// situation is what is decided from. The lock is held.
func (o *operator) situation(reports map[view.MemberID]decide.Report) decide.Situation {
	return decide.Situation{Record: &o.directory.Record, Reports: reports, Distances: o.spec.Distances()}
}

// advance takes the next step, if there is one. It reports whether something is under way.
func (o *operator) advance(reports map[view.MemberID]decide.Report, observations []Observation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, now := &o.directory.Record, o.situation(reports)
	step, err := now.Next()
	// Each view interrupts what its partitions are doing, such as to recover, so the present one is left alone a while.
	if err == nil && len(step.Because) > 0 {
		pause := o.settle
		if now.Disturbs(step.View) {
			pause += recoverWithin
		}
		if time.Since(o.adopted) < pause {
			step = decide.Step{Waits: "the members to settle in the view of epoch " + fmt.Sprint(r.View.Epoch)}
		}
	}
	switch {
	case err != nil:
	case step.Over:
		err = o.finish()
	case step.View.Epoch > 0:
		err = o.adopt(step)
	default:
		err = o.staff(now)
	}
	o.waiting = ""
	if r.Change == nil {
		if err != nil {
			o.say("%v", err)
		}
		o.waiting = step.Waits
		return r.View.Epoch == 0 || !now.Committed()
	}
	if err != nil {
		o.progress.waits(err.Error())
	} else if step.Waits != "" {
		o.progress.waits(parts(r, observations, step.Waits))
	}
	return true
}

// adopt records a view. From then on members are told it.
func (o *operator) adopt(step decide.Step) error {
	err := o.directory.Update(func(r *record.Record) error {
		r.View, r.Change = step.View, r.Change.GivenUp(step.Abandoned)
		return nil
	})
	if err != nil {
		return err
	}
	o.adopted = time.Now()
	r := &o.directory.Record
	for _, why := range step.Because {
		o.tell("epoch %d: %s", r.View.Epoch, why)
	}
	switch {
	case r.Change == nil || len(step.Because) > 0:
	case r.View.Joint() && step.Abandoned != "":
		o.progress.line("giving the change up: %s", step.Abandoned)
	case r.View.Joint():
		o.progress.line("epoch %d: %s", r.View.Epoch, r.Describe(r.Change))
	case step.Abandoned != "":
		o.progress.line("epoch %d: the members are those before the change: %s", r.View.Epoch, step.Abandoned)
	default:
		o.progress.line("epoch %d: the members are %s", r.View.Epoch, r.Labels(r.View.IDs()))
	}
	return nil
}

// tell says something about the change that is going on, or to whoever watches if there is none.
func (o *operator) tell(format string, args ...any) {
	if o.directory.Record.Change != nil {
		o.progress.line(format, args...)
		return
	}
	o.say(format, args...)
}

// finish forgets a change that is over, and the members that the view does not have.
func (o *operator) finish() error {
	change, _, err := o.keepMembersOf(o.directory.Record.View)
	switch {
	case err != nil:
		return err
	case change.Abandoned != "":
		o.progress.end(fmt.Errorf("the change was given up: %s", change.Abandoned))
	default:
		o.progress.line("the change is over")
		o.progress.end(nil)
	}
	return nil
}

// keepMembersOf records a view, no change, and the members of that view alone: the others are retired. It returns the
// change that there was, and the others. The lock is held.
func (o *operator) keepMembersOf(v view.View) (change *record.Change, others []view.MemberID, err error) {
	err = o.directory.Update(func(r *record.Record) error {
		var kept []record.Member
		for _, m := range r.Members {
			if v.Index(m.ID) >= 0 {
				kept = append(kept, m)
			} else {
				others = append(others, m.ID)
			}
		}
		change = r.Change
		r.View, r.Change, r.Members = v, nil, kept
		return nil
	})
	if err == nil {
		o.processes.retire(func(id view.MemberID) bool { return slices.Contains(others, id) })
	}
	return change, others, err
}

// staff starts the dedicated witnesses that are missing, and ends those that are over. The lock is held.
func (o *operator) staff(now decide.Situation) error {
	missing, over := now.Staff()
	if len(missing)+len(over) == 0 {
		return nil
	}
	gone := func(id view.MemberID) bool { return slices.Contains(over, id) }
	var added []record.Witness
	err := o.directory.Update(func(r *record.Record) error {
		avoid := r.Ports()
		r.Witnesses = slices.DeleteFunc(slices.Clone(r.Witnesses), func(w record.Witness) bool { return gone(w.ID) })
		kept := len(r.Witnesses)
		for _, site := range missing {
			r.IssueWitness(site)
		}
		added = r.Witnesses[kept:]
		return record.Assign(nil, added, avoid, 0, false)
	})
	if err != nil {
		return err
	}
	o.processes.retire(gone)
	for _, w := range added {
		o.tell("%s starts, as witness %d", o.directory.Record.Label(w.ID), w.ID)
		if err := o.processes.addWitness(w); err != nil {
			return err
		}
	}
	return nil
}

// apply has members and witnesses do what the recorded view wants of them, and does not wait for them.
func (o *operator) apply(ctx context.Context, reports map[view.MemberID]decide.Report) {
	o.mu.Lock()
	now := o.situation(reports)
	v := now.View
	begin, end := now.Lives()
	o.mu.Unlock()
	o.processes.sendView(ctx, v, reports, o.wake)
	o.processes.sendLives(ctx, v, begin, end, o.wake)
}

// view is the one that is recorded.
func (o *operator) view() view.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.directory.Record.View
}
