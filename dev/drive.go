package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

const (
	// restEvery is the pause between two looks at a cluster in which nothing changes.
	restEvery = 200 * time.Millisecond
	// silentAfter is how long a process that runs may tell nothing before a change goes on without it.
	silentAfter = 5 * time.Second
)

// drive founds the cluster, and takes each change of its members from one step to the next, until the context ends. All
// that it knows is in the directory's record and in what members say, so another process can go on with it.
func (c *Cluster) drive(ctx context.Context) {
	heard := map[view.MemberID]time.Time{}
	hearing := newHearing(c.settle)
	for ctx.Err() == nil {
		var witnesses map[view.MemberID]*membership.WitnessReport
		var asking sync.WaitGroup
		asking.Go(func() { witnesses = c.askWitnesses(ctx) })
		observations := c.Observe(ctx)
		asking.Wait()
		if ctx.Err() != nil {
			return
		}
		reports, lost := map[view.MemberID]report{}, c.lost()
		for _, o := range observations {
			if o.Status != nil || heard[o.ID].IsZero() {
				heard[o.ID] = time.Now()
			}
			r := o.report(time.Since(heard[o.ID]) > silentAfter)
			r.witness = witnesses[o.ID]
			if o.Status != nil {
				r.told = hearing.judge(o, told(o.ID, o.Status), lost, time.Now())
			}
			reports[o.ID] = r
		}
		for _, w := range c.dedicated() {
			reports[w.id] = report{witness: witnesses[w.id], running: w.current().running()}
		}
		c.noteNamed(reports)
		pause := restEvery
		if busy := c.advance(reports, observations); busy {
			pause = pollEvery
		}
		c.tell(ctx, reports)
		c.live(ctx, reports)
		select {
		case <-time.After(pause):
		case <-c.woken:
		case <-ctx.Done():
		}
	}
}

// lost are the members and witnesses that are known to be gone. A command takes a member and the witness beside it at
// once, and is waited for: if one of them were seen to be gone alone, the view without it would hold up the one without
// the other.
func (c *Cluster) lost() (ids []view.MemberID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.all() {
		if m.lost() {
			ids = append(ids, m.record.ID)
		}
	}
	for _, w := range c.sidecars() {
		if w.lost() {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// noteNamed notes who has said on which disk it is.
func (c *Cluster) noteNamed(reports map[view.MemberID]report) {
	for _, m := range c.all() {
		if reports[m.record.ID].told != nil {
			m.named()
		}
	}
	for _, w := range c.sidecars() {
		if reports[w.key()].witness != nil {
			w.named()
		}
	}
}

// report is what the driver wants to know of an observation.
func (o Observation) report(silent bool) report {
	r := report{running: o.State != Down && o.State != Crashed, crashed: o.Reason, silent: silent}
	if o.Witness != nil && !o.Witness.Dedicated && r.crashed == "" {
		r.crashed = o.Witness.Reason // a newcomer is no good without it
	}
	s := o.Status
	if s == nil {
		return r
	}
	r.disk, r.waiting, r.serves = s.Disk, s.Role == adminv1.Role_WAITING, o.State == Serving
	r.standing = membership.Standing{Digest: s.Digest, Settled: s.GetChange().GetSettled(), Fetched: s.GetChange().GetFetched()}
	if s.View != nil {
		r.view = wire.FromProto(s.View)
	}
	return r
}

// advance takes the next step, if there is one. It reports whether something is under way.
func (c *Cluster) advance(reports map[view.MemberID]report, observations []Observation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	s, err := r.next(reports)
	if err == nil && len(s.because) > 0 && time.Since(c.adopted) < c.pace(s.view, reports) {
		s = step{waits: "the members to settle in the view of epoch " + fmt.Sprint(r.View.Epoch)}
	}
	if err == nil && s.over {
		err = c.finish()
	} else if err == nil && s.view.Epoch > 0 {
		err = c.adopt(s)
	}
	if err == nil && s.view.Epoch == 0 && !s.over {
		err = c.staff(reports)
	}
	c.waiting = ""
	if r.Change == nil {
		if err != nil {
			c.say("%v", err)
		}
		c.waiting = s.waits
		return r.View.Epoch == 0 || !membership.Committed(r.View, holders(reports))
	}
	if err != nil {
		c.progress.waits(err.Error())
	} else if s.waits != "" {
		c.progress.waits(r.parts(observations, s.waits))
	}
	return true
}

// pace is how long the present view is left alone before another one for its partitions: each interrupts what they are
// doing, such as to recover. Only a master or a backup that is lost is worth that.
func (c *Cluster) pace(next view.View, reports map[view.MemberID]report) time.Duration {
	r := &c.directory.record
	for i, p := range r.View.Partitions {
		if to := next.Partitions[i]; to.Master != p.Master || len(p.Formers) > 0 && to.Term != p.Term {
			return c.settle
		}
	}
	if r.recovering(reports) {
		return c.settle + recoverWithin
	}
	return c.settle
}

// adopt records a view. From then on members are told it.
func (c *Cluster) adopt(s step) error {
	r := &c.directory.record
	earlier, abandoned := r.View, ""
	if r.Change != nil {
		abandoned, r.Change.Abandoned = r.Change.Abandoned, s.abandoned
	}
	r.View = s.view
	if err := c.directory.save(); err != nil {
		r.View = earlier // what is not recorded must not be told
		if r.Change != nil {
			r.Change.Abandoned = abandoned
		}
		return err
	}
	c.adopted = time.Now()
	for _, why := range s.because {
		c.tellLine("epoch %d: %s", r.View.Epoch, why)
	}
	switch {
	case r.Change == nil || len(s.because) > 0:
	case r.View.Joint() && s.abandoned != "":
		c.progress.line("giving the change up: %s", s.abandoned)
	case r.View.Joint():
		c.progress.line("epoch %d: %s", r.View.Epoch, r.Change.describe(r))
	case s.abandoned != "":
		c.progress.line("epoch %d: the members are those before the change: %s", r.View.Epoch, s.abandoned)
	default:
		c.progress.line("epoch %d: the members are %s", r.View.Epoch, r.labels(members(r.View)))
	}
	return nil
}

// tellLine says something about the change that is going on, or to whoever watches if there is none.
func (c *Cluster) tellLine(format string, args ...any) {
	if c.directory.record.Change != nil {
		c.progress.line(format, args...)
		return
	}
	c.say(format, args...)
}

func members(v view.View) (ids []view.MemberID) {
	for _, m := range v.Members {
		ids = append(ids, m.ID)
	}
	return ids
}

// finish forgets a change that is over, and the members that the view does not have.
func (c *Cluster) finish() error {
	r := &c.directory.record
	abandoned := r.Change.Abandoned
	former, change := slices.Clone(r.Members), r.Change
	gone := func(id view.MemberID) bool { return r.View.Index(id) < 0 }
	r.Members, r.Change = slices.DeleteFunc(r.Members, func(m memberRecord) bool { return gone(m.ID) }), nil
	if err := c.directory.save(); err != nil {
		r.Members, r.Change = former, change
		return err
	}
	for _, m := range c.all() {
		if gone(m.record.ID) {
			c.drop(m)
		}
	}
	if abandoned != "" {
		c.progress.end(fmt.Errorf("the change was given up: %s", abandoned))
		return nil
	}
	c.progress.line("the change is over")
	c.progress.end(nil)
	return nil
}

// drop takes a member out that the record has no more, and stops its process.
func (c *Cluster) drop(m *member) {
	c.membersMu.Lock()
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
	c.membersMu.Unlock()
	c.background.Go(func() {
		if err := errors.Join(m.stop(), m.disconnect(), os.RemoveAll(c.directory.member(m.record))); err != nil {
			c.say("%s: %v", m.record.Label, err)
		}
	})
}

// tell gives the recorded view to members that hold another one. A newcomer hears nothing before a view has had its ID.
func (c *Cluster) tell(ctx context.Context, reports map[view.MemberID]report) {
	c.mu.Lock()
	v := c.directory.record.View
	c.mu.Unlock()
	if v.Epoch == 0 {
		return
	}
	for _, m := range c.all() {
		id := m.record.ID
		r, known := reports[id]
		if !known || r.lost() || r.disk == "" || r.standing.Digest == v.Digest() || id > v.LastIssued() || !m.telling.CompareAndSwap(false, true) {
			continue
		}
		c.background.Go(func() {
			defer m.telling.Store(false)
			ctx, cancel := context.WithTimeout(ctx, linkTimeout)
			defer cancel()
			// What comes of it shows in the member's next status.
			_, _ = m.admin.Configure(ctx, &adminv1.ConfigureRequest{
				Cluster: v.Cluster, Member: uint32(id), View: wire.ToProto(v),
			}, grpc.WaitForReady(true))
			c.wake()
		})
	}
}

// wake has the driver look again at once.
func (c *Cluster) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}
