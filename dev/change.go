package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Add begins a change in which a member joins at each of the sites. It says what was begun; the change goes on by
// itself.
func (c *Cluster) Add(ctx context.Context, sites ...string) (string, error) {
	return c.begin(ctx, sites, nil)
}

// Remove begins a change in which members leave: those of sites, or single ones by their label.
func (c *Cluster) Remove(ctx context.Context, names ...string) (string, error) {
	return c.begin(ctx, nil, names)
}

// Replace begins a change in which the members of a site, or one by its label, leave, and as many join at another
// site; empty: at the same one.
func (c *Cluster) Replace(ctx context.Context, name, with string) (string, error) {
	leave, err := c.find(name)
	if err != nil {
		return "", err
	}
	if with == "" {
		with = leave[0].record.Site
	}
	return c.begin(ctx, slices.Repeat([]string{with}, len(leave)), []string{name})
}

func (c *Cluster) begin(ctx context.Context, join, leave []string) (string, error) {
	observations := c.gather(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	change := &change{}
	for _, name := range leave {
		members, err := c.find(name)
		if err != nil {
			return "", err
		}
		for _, m := range members {
			if !slices.Contains(change.Leave, m.record.ID) {
				change.Leave = append(change.Leave, m.record.ID)
			}
		}
	}
	if err := c.allowed(observations, join, change.Leave); err != nil {
		return "", err
	}
	former := *r
	r.Members = slices.Clone(r.Members)
	for _, site := range join {
		change.Join = append(change.Join, r.newcomer(site))
	}
	r.Change = change
	begun := change.describe(r)
	if err := c.admit(former.Members); err != nil {
		*r = former
		return "", errors.Join(err, c.directory.save())
	}
	c.progress = newProgress(func(line string) { c.say("%s", line) })
	c.wake()
	return begun + "; `abandon` gives that up", nil
}

// gather observes the members, and waits for a while until a quorum is in reach: after a start, a recovery or a new
// view they connect anew. Where too few run, it does not wait.
func (c *Cluster) gather(ctx context.Context) []Observation {
	said := false
	for deadline := time.Now().Add(c.settle + silentAfter); ; {
		observations := c.Observe(ctx)
		v := c.view()
		connecting := holds(v, observations, Serving, NoQuorum, Starting, Waiting, Joining)
		if reachesQuorum(v, observations) || !connecting || time.Now().After(deadline) {
			return observations
		}
		if !said {
			said = true
			c.say("before members change: waiting for a quorum to connect")
		}
		select {
		case <-ctx.Done():
			return observations
		case <-time.After(pollEvery):
		}
	}
}

// admit starts the newcomers of the record, on empty disks, once they are recorded.
func (c *Cluster) admit(others []memberRecord) error {
	r := &c.directory.record
	newcomers := r.Members[len(others):]
	if err := assignMore(newcomers, slices.Concat(portsOf(others), portsOfWitnesses(r.Witnesses))); err != nil {
		return err
	}
	for _, m := range newcomers {
		if err := os.RemoveAll(c.directory.member(m)); err != nil {
			return fmt.Errorf("%s: remove what an earlier change left: %w", m.Label, err)
		}
	}
	if err := c.directory.save(); err != nil {
		return err
	}
	for i, m := range newcomers {
		if err := c.open(m); err != nil {
			for _, started := range c.all()[len(others) : len(others)+i] {
				c.drop(started)
			}
			return err
		}
	}
	return nil
}

// allowed reports what keeps a change from being begun.
func (c *Cluster) allowed(observations []Observation, join []string, leave []view.MemberID) error {
	r := &c.directory.record
	switch {
	case r.Change != nil:
		return fmt.Errorf("a change is going on already (%s); wait for it, or `abandon` it", r.Change.describe(r))
	case r.View.Epoch == 0:
		return errors.New("the cluster is being founded; wait until all members serve")
	}
	for _, site := range join {
		if err := c.knows(site); err != nil {
			return err
		}
	}
	protocol, err := capability.Find(r.Protocol)
	if err != nil {
		return err
	}
	before := r.View.Size()
	if err := protocol.CheckMembers(before + len(join) - len(leave)); err != nil {
		return fmt.Errorf("%d of %d members would leave and %d join: %w; name as many sites as that takes, such as `add SITE SITE`",
			len(leave), before, len(join), err)
	}
	if c.options.Manifest.Spec.ErasureCoding() != nil && len(join) < len(leave) {
		return errors.New("with erasureCoding members can't become fewer, since too few fragments of a value could be left; " +
			"name as many sites that join as leave, such as `replace SITE SITE`")
	}
	if !reachesQuorum(r.View, observations) {
		var said []string
		for _, o := range observations {
			said = append(said, fmt.Sprintf("%s is %s", o.Label, o.State))
		}
		return fmt.Errorf("no quorum is in reach: %s; restart or heal members until one is; "+
			"if they are lost for good, `recover` goes on with what is left", strings.Join(said, ", "))
	}
	return nil
}

// knows reports why nobody can join at a site.
func (c *Cluster) knows(site string) error {
	spec := c.options.Manifest.Spec
	if spec.WAN == nil {
		if mistakes := validation.IsDNS1123Label(site); len(mistakes) > 0 {
			return fmt.Errorf("site %q: %s", site, strings.Join(mistakes, "; "))
		}
		return nil
	}
	if known := sites(spec); !slices.Contains(known, site) {
		return fmt.Errorf("site %s: the manifest's spec.wan does not say how far it is; it knows %s", site, strings.Join(known, ", "))
	}
	return nil
}

// reachesQuorum is whether a quorum of the view votes and says that it reaches one.
func reachesQuorum(v view.View, observations []Observation) bool {
	return holds(v, observations, Serving)
}

// holds reports whether a quorum of the view is in one of some states.
func holds(v view.View, observations []Observation, states ...State) bool {
	return v.Quorum(func(id view.MemberID) bool {
		i := slices.IndexFunc(observations, func(o Observation) bool { return o.ID == id })
		return i >= 0 && slices.Contains(states, observations[i].State) && !observations[i].mislaid(v)
	})
}

// mislaid reports whether a member is on another disk than a view with partitions names: it follows on the new one, and
// counts for nothing.
func (o Observation) mislaid(v view.View) bool {
	i := v.Index(o.ID)
	disk := o.Status.GetDisk()
	return len(v.Partitions) > 0 && i >= 0 && disk != "" && disk != v.Members[i].Disk
}

// Abandon gives up the change that is going on: the members are those before it again.
func (c *Cluster) Abandon() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	switch {
	case r.Change == nil:
		return errors.New("no change of members is going on")
	case !r.View.Joint() && r.changed():
		return errors.New("the change is finished, and can't be given up any more; begin the opposite one when it is over")
	}
	r.Change.Abandoned = "you abandoned it"
	if err := c.directory.save(); err != nil {
		r.Change.Abandoned = ""
		return err
	}
	c.wake()
	return nil
}

// Recover goes on with one member alone, after a quorum was lost for good. All others are killed, and their disks
// removed. It says what that costs.
func (c *Cluster) Recover(ctx context.Context, name string) (string, error) {
	observations := c.Observe(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	trusted, err := c.trusted(name, observations)
	if err != nil {
		return "", err
	}
	next, err := membership.Recover(r.View, trusted.ID)
	if err != nil {
		return "", err
	}
	for _, m := range c.all() {
		if m.record.ID != trusted.ID {
			m.current().kill() // first: what lives on might serve what the others don't know of
		}
	}
	former := *r
	r.View, r.Change, r.Members = next, nil, []memberRecord{*r.find(trusted.ID)}
	if err := c.directory.save(); err != nil {
		*r = former
		return "", err
	}
	if former.Change != nil {
		c.progress.end(fmt.Errorf("the change was given up: %s goes on alone", trusted.Label))
	}
	for _, m := range c.all() {
		if m.record.ID != trusted.ID {
			c.drop(m)
		}
	}
	c.wake()
	costs := ""
	if e := c.options.Manifest.Spec.ErasureCoding(); e != nil && e.DataFragments > 1 {
		costs = "; " + e.LostWithOne()
	}
	return fmt.Sprintf("%s goes on alone in epoch %d, with what its disk has. Whatever others acknowledged without it is lost, "+
		"and what it had not heard the outcome of may show or not%s; `add SITE SITE` makes it three members again",
		trusted.Label, next.Epoch, costs), nil
}

// trusted is the member to go on with, if it can be.
func (c *Cluster) trusted(name string, observations []Observation) (Observation, error) {
	r := &c.directory.record
	members, err := c.find(name)
	if err != nil {
		return Observation{}, err
	}
	if len(members) > 1 {
		return Observation{}, fmt.Errorf("%s has %d members; name one of them", name, len(members))
	}
	id := members[0].record.ID
	seen := slices.IndexFunc(observations, func(o Observation) bool { return o.ID == id })
	if seen < 0 {
		return Observation{}, fmt.Errorf("%s has just been added; name a member of the view of epoch %d", name, r.View.Epoch)
	}
	o := observations[seen]
	at, change := r.View.Index(id), o.Status.GetChange()
	switch {
	case r.View.Epoch == 0:
		return o, errors.New("the cluster is being founded: nothing is lost yet")
	case reachesQuorum(r.View, observations):
		return o, errors.New("a quorum is in reach, so nothing has to be given up; use `replace` or `remove`")
	case at < 0:
		return o, fmt.Errorf("%s is not in the view of epoch %d; name one that is", o.Label, r.View.Epoch)
	case o.Status == nil:
		return o, fmt.Errorf("%s is %s; `restart %s` first", o.Label, o.State, o.Label)
	case o.Status.Role != adminv1.Role_VOTER, r.View.Members[at].Joining && !change.GetFetched():
		return o, fmt.Errorf("%s is %s: its disk does not have the state; name another one", o.Label, o.State)
	}
	return o, nil
}
