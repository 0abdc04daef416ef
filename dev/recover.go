package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev/decide"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

var errInReach = errors.New("a quorum is in reach, so nothing has to be given up; use `replace` or `remove`")

// Recover goes on with what is left, after a quorum was lost for good, and says what that costs: with one member alone,
// or with `all` that answer where shards have masters, each partition from one of them. All others are killed, and
// their disks removed. Partitions that none is certain to hold go on from the member that followed furthest, or empty
// if none has a whole copy, if they are named by their numbers.
func (o *operator) Recover(ctx context.Context, who string, unheld ...string) (string, error) {
	r := &o.directory.Record
	switch { // whether it has masters never changes
	case r.Partitioned() && who != decide.RecoverAll:
		return "", fmt.Errorf("protocol %s: no member holds all partitions, so all members that are left go on: "+
			"`recover %s`", r.Protocol, decide.RecoverAll)
	case !r.Partitioned() && len(unheld) > 0:
		return "", errors.New("use: recover MEMBER")
	}
	observations, reports := o.ask(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Partitioned() {
		return o.recoverPartitions(observations, reports, strings.Join(unheld, ","))
	}
	return o.recoverMember(observations, who)
}

func (o *operator) recoverMember(observations []Observation, name string) (string, error) {
	trusted, err := o.trusted(name, observations)
	if err != nil {
		return "", err
	}
	next, err := membership.Recover(o.directory.Record.View, trusted.ID)
	if err != nil {
		return "", err
	}
	if _, err := o.goOn(next, trusted.Label+" goes on alone"); err != nil {
		return "", err
	}
	costs := ""
	if e := o.spec.ErasureCoding(); e != nil && e.DataFragments > 1 {
		costs = "; " + e.LostWithOne()
	}
	return fmt.Sprintf("%s goes on alone in epoch %d, with what its disk has. Whatever others acknowledged without "+
		"it is lost, and what it had not heard the outcome of may show or not%s; `add SITE SITE` makes it three "+
		"members again", trusted.Label, next.Epoch, costs), nil
}

func (o *operator) recoverPartitions(
	observations []Observation, reports map[view.MemberID]decide.Report, list string,
) (string, error) {
	r := &o.directory.Record
	unheld, err := r.Numbers(list)
	if err == nil && reachesQuorum(r.View, observations) {
		err = errInReach
	}
	if err != nil {
		return "", err
	}
	for id, said := range reports { // order is irrelevant: a map into itself
		said.Crashed = "" // whether a change could come to its end is no matter any more
		reports[id] = said
	}
	d, err := o.situation(reports).Rescue(unheld)
	if err != nil {
		return "", err
	}
	left := r.Labels(d.View.IDs())
	givenUp, err := o.goOn(d.View, left+" go on")
	if err != nil {
		return "", err
	}
	text := "%s go on in epoch %d, with what their disks have"
	if d.View.Size() == 1 {
		text = "%s goes on in epoch %d, with what its disk has"
	}
	return fmt.Sprintf(text+"; given up are %s; %s; `add SITE` brings new members, of which there have to be 3, 5 or 7",
		left, d.View.Epoch, givenUp, strings.Join(d.Costs("partitions"), "; ")), nil
}

// goOn records a view after a lost quorum, and returns the names of those who are given up. The lock is held.
func (o *operator) goOn(next view.View, why string) (givenUp string, err error) {
	former := o.directory.Record
	for _, m := range o.processes.all() {
		if next.Index(m.id) < 0 {
			kill(m.units()) // first: what lives on might serve what the others don't know of
		}
	}
	change, others, err := o.keepMembersOf(next)
	if err != nil {
		return "", err
	}
	if change != nil {
		o.progress.end(fmt.Errorf("the change was given up: %s", why))
	}
	o.wake()
	return former.Labels(others), nil
}

// trusted is the member to go on with, if it can be.
func (o *operator) trusted(name string, observations []Observation) (Observation, error) {
	r := &o.directory.Record
	members, err := o.processes.find(name)
	if err != nil {
		return Observation{}, err
	}
	if len(members) > 1 {
		return Observation{}, fmt.Errorf("%s has %d members; name one of them", name, len(members))
	}
	id := members[0].id
	seen := slices.IndexFunc(observations, func(m Observation) bool { return m.ID == id })
	if seen < 0 {
		return Observation{}, fmt.Errorf("%s has just been added; name a member of the view of epoch %d", name,
			r.View.Epoch)
	}
	m := observations[seen]
	at, change := r.View.Index(id), m.Status.GetChange()
	switch {
	case r.View.Epoch == 0:
		return m, errors.New("the cluster is being founded: nothing is lost yet")
	case reachesQuorum(r.View, observations):
		return m, errInReach
	case at < 0:
		return m, fmt.Errorf("%s is not in the view of epoch %d; name one that is", m.Label, r.View.Epoch)
	case m.Status == nil:
		return m, fmt.Errorf("%s is %s; `restart %s` first", m.Label, m.State, m.Label)
	case m.Status.Role != adminv1.Role_VOTER, r.View.Members[at].Joining && !change.GetFetched():
		return m, fmt.Errorf("%s is %s: its disk does not have the state; name another one", m.Label, m.State)
	}
	return m, nil
}
