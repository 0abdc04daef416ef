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

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/view"
)

// Add begins a change in which a member joins at each of the sites. It says what was begun; the change goes on by
// itself.
func (o *operator) Add(ctx context.Context, sites ...string) (string, error) {
	return o.begin(ctx, sites, nil)
}

// Remove begins a change in which members leave: those of sites, or single ones by their label.
func (o *operator) Remove(ctx context.Context, names ...string) (string, error) {
	return o.begin(ctx, nil, names)
}

// Replace begins a change in which the members of a site, or one by its label, leave, and as many join at another
// site; empty: at the same one.
func (o *operator) Replace(ctx context.Context, name, with string) (string, error) {
	leave, err := o.processes.find(name)
	if err != nil {
		return "", err
	}
	if with == "" {
		with = leave[0].record.Site
	}
	return o.begin(ctx, slices.Repeat([]string{with}, len(leave)), []string{name})
}

func (o *operator) begin(ctx context.Context, join, leave []string) (string, error) {
	observations := o.gather(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	change := &record.Change{}
	for _, name := range leave {
		members, err := o.processes.find(name)
		if err != nil {
			return "", err
		}
		for _, m := range members {
			if !slices.Contains(change.Leave, m.id) {
				change.Leave = append(change.Leave, m.id)
			}
		}
	}
	if err := o.allowed(observations, join, change.Leave); err != nil {
		return "", err
	}
	former := o.directory.Record
	if err := o.directory.Update(func(r *record.Record) error { return o.addNewcomers(r, change, join) }); err != nil {
		return "", err
	}
	r := &o.directory.Record
	begun := r.Describe(change)
	for _, m := range r.Members[len(former.Members):] {
		if err := o.processes.addMember(m); err != nil {
			o.processes.retire(func(id view.MemberID) bool { return slices.Contains(change.Join, id) })
			return "", errors.Join(err, o.directory.Update(func(r *record.Record) error { *r = former; return nil }))
		}
	}
	o.progress = newProgress(o.say)
	o.wake()
	return begun + "; `abandon` gives that up", nil
}

// addNewcomers adds a change to the record, with members at sites that join by it and will start on empty disks.
func (o *operator) addNewcomers(r *record.Record, change *record.Change, sites []string) error {
	avoid, others := r.Ports(), len(r.Members)
	for _, site := range sites {
		change.Join = append(change.Join, r.Newcomer(site))
	}
	r.Change = change
	newcomers := r.Members[others:]
	for _, m := range newcomers {
		if err := os.RemoveAll(o.directory.Member(m)); err != nil {
			return fmt.Errorf("%s: remove what an earlier change left: %w", m.Label, err)
		}
	}
	return record.Assign(newcomers, nil, avoid, 0, false)
}

// gather observes the members, and waits for a while until a quorum is in reach: after a start, a recovery or a new
// view they connect anew. Where too few run, it does not wait.
func (o *operator) gather(ctx context.Context) []Observation {
	said := false
	for deadline := time.Now().Add(o.settle + silentAfter); ; {
		observations := o.Observe(ctx)
		v := o.view()
		connecting := holds(v, observations, Serving, NoQuorum, Starting, Waiting, Joining)
		if reachesQuorum(v, observations) || !connecting || time.Now().After(deadline) {
			return observations
		}
		if !said {
			said = true
			o.say("before members change: waiting for a quorum to connect")
		}
		select {
		case <-ctx.Done():
			return observations
		case <-time.After(pollEvery):
		}
	}
}

// allowed reports what keeps a change from being begun.
func (o *operator) allowed(observations []Observation, join []string, leave []view.MemberID) error {
	r := &o.directory.Record
	switch {
	case r.Change != nil:
		return fmt.Errorf("a change is going on already (%s); wait for it, or `abandon` it", r.Describe(r.Change))
	case r.View.Epoch == 0:
		return errors.New("the cluster is being founded; wait until all members serve")
	}
	for _, site := range join {
		if err := knows(o.spec, site); err != nil {
			return err
		}
	}
	protocol, err := capability.Find(r.Protocol)
	if err != nil {
		return err
	}
	before := r.View.Size()
	if err := protocol.CheckMembers(before + len(join) - len(leave)); err != nil {
		return fmt.Errorf("%d of %d members would leave and %d join: %w; name as many sites as that takes, such as "+
			"`add SITE SITE`",
			len(leave), before, len(join), err)
	}
	if o.spec.ErasureCoding() != nil && len(join) < len(leave) {
		return errors.New("with erasureCoding members can't become fewer, since too few fragments of a value could " +
			"be left; name as many sites that join as leave, such as `replace SITE SITE`")
	}
	if !reachesQuorum(r.View, observations) {
		var said []string
		for _, m := range observations {
			said = append(said, fmt.Sprintf("%s is %s", m.Label, m.State))
		}
		return fmt.Errorf("no quorum is in reach: %s; restart or heal members until one is; "+
			"if they are lost for good, `recover` goes on with what is left", strings.Join(said, ", "))
	}
	return nil
}

// knows reports why nobody can join at a site.
func knows(spec v1alpha1.GeoRegisterClusterSpec, site string) error {
	if spec.WAN == nil {
		if mistakes := validation.IsDNS1123Label(site); len(mistakes) > 0 {
			return fmt.Errorf("site %q: %s", site, strings.Join(mistakes, "; "))
		}
		return nil
	}
	if known := sites(spec); !slices.Contains(known, site) {
		return fmt.Errorf("site %s: the manifest's spec.wan does not say how far it is; it knows %s", site,
			strings.Join(known, ", "))
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
func (o *operator) Abandon() error {
	_, err := o.command(func(r *record.Record) (string, error) {
		switch {
		case r.Change == nil:
			return "", errors.New("no change of members is going on")
		case !r.View.Joint() && o.situation(nil).Changed():
			return "", errors.New("the change is finished, and can't be given up any more; begin the opposite one " +
				"when it is over")
		}
		r.Change = r.Change.GivenUp("you abandoned it")
		return "", nil
	})
	return err
}

// command changes the record, and has the operator look at once. It says what was begun.
func (o *operator) command(change func(*record.Record) (string, error)) (begun string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.wake()
	err = o.directory.Update(func(r *record.Record) error {
		begun, err = change(r)
		return err
	})
	return begun, err
}
