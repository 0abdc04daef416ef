package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// recoverAll names all members that are left, where shards have masters.
const recoverAll = "all"

// RecoverAll goes on with the members that answer, after a quorum was lost for good, where shards have masters: each
// partition from one of them. All others are killed, and their disks removed. Partitions that none of them is certain
// to hold go on from the member that followed furthest, or empty if none has a whole copy, if the list names them,
// such as "0,2". It says what that costs.
func (c *Cluster) RecoverAll(ctx context.Context, list string) (string, error) {
	witnesses := c.askWitnesses(ctx)
	observations := c.Observe(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.directory.record
	unheld, err := r.numbers(list)
	if err != nil {
		return "", err
	}
	reports := map[view.MemberID]report{}
	for id, said := range witnesses { // order is irrelevant: a map from a map
		reports[id] = report{witness: said}
	}
	for _, o := range observations {
		if o.Status != nil {
			said := report{witness: witnesses[o.ID], told: told(o.ID, o.Status)}
			said.standing.Digest = o.Status.Digest
			reports[o.ID] = said
		}
	}
	if reachesQuorum(r.View, observations) {
		return "", errors.New("a quorum is in reach, so nothing has to be given up; use `replace` or `remove`")
	}
	d, err := r.rescue(reports, unheld)
	if err != nil {
		return "", err
	}
	gone := func(id view.MemberID) bool { return d.View.Index(id) < 0 }
	for _, m := range c.all() {
		if gone(m.record.ID) {
			for _, u := range m.units() {
				if p := u.current(); p != nil {
					p.kill() // first: what lives on might serve what the others don't know of
				}
			}
		}
	}
	former := *r
	r.View, r.Change = d.View, nil
	r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(m memberRecord) bool { return gone(m.ID) })
	if err := c.directory.save(); err != nil {
		*r = former
		return "", err
	}
	left, givenUp := r.labels(members(r.View)), ""
	for _, m := range former.Members {
		if gone(m.ID) {
			givenUp += ", " + m.Label
		}
	}
	if former.Change != nil {
		c.progress.end(fmt.Errorf("the change was given up: %s go on", left))
	}
	for _, m := range c.all() {
		if gone(m.record.ID) {
			c.drop(m)
		}
	}
	c.wake()
	text := fmt.Sprintf("%s goes on in epoch %d, with what its disk has", left, d.View.Epoch)
	if d.View.Size() > 1 {
		text = fmt.Sprintf("%s go on in epoch %d, with what their disks have", left, d.View.Epoch)
	}
	return text + "; given up are " + strings.TrimPrefix(givenUp, ", ") + d.costs() + "; `add SITE` brings new members, of which there have to be 3, 5 or 7", nil
}

// costs says what a recovery lost.
func (d rescue) costs() (text string) {
	if len(d.Behind) > 0 {
		text += fmt.Sprintf("; partitions %s go on from a copy that nobody waited for, and the latest writes that were acknowledged may be lost", numbersText(d.Behind))
	}
	if len(d.Emptied) > 0 {
		text += fmt.Sprintf("; partitions %s begin again empty", numbersText(d.Emptied))
	}
	if len(d.Shortened) > 0 {
		text += fmt.Sprintf("; of partitions %s the latest writes that only lost witnesses had saved may be lost", numbersText(d.Shortened))
	}
	if text == "" {
		text = "; no partition lost what was acknowledged"
	}
	return text
}

// withConsent says what becomes of the partitions that are lost once they are named, to be read after "have".
func (d rescue) withConsent() string {
	var all []string
	named := func(some []int) []int {
		return slices.DeleteFunc(slices.Clone(some), func(i int) bool { return !slices.Contains(d.Lost, i) })
	}
	if behind := named(d.Behind); len(behind) > 0 {
		all = append(all, fmt.Sprintf("partitions %s go on from the copy of who followed furthest, without the latest writes that it had not heard of",
			numbersText(behind)))
	}
	if emptied := named(d.Emptied); len(emptied) > 0 {
		all = append(all, fmt.Sprintf("partitions %s, of which nobody who answers has a whole copy, begin again empty", numbersText(emptied)))
	}
	return strings.Join(all, ", and ")
}

type rescue struct{ membership.Rescue }

// rescue decides how the members go on that answer and are on the disks that the view names.
func (r *record) rescue(reports map[view.MemberID]report, unheld []int) (rescue, error) {
	if r.View.Epoch == 0 {
		return rescue{}, errors.New("the cluster is being founded: nothing is lost yet")
	}
	s := r.snapshot(reports)
	for _, said := range s.Members {
		if i := r.View.Index(said.Member); said.Disk == r.View.Members[i].Disk && said.Digest != r.View.Digest() {
			return rescue{}, fmt.Errorf("%s does not hold the view of epoch %d yet; try again in a moment", r.label(said.Member), r.View.Epoch)
		}
	}
	d, err := membership.RecoverPartitions(s, unheld)
	if err != nil {
		return rescue{}, err
	}
	if len(d.Lost) > 0 {
		return rescue{}, fmt.Errorf("nobody who answers is certain to hold all of partitions %s; `restart` who held them, or have %s: `recover %s %s`",
			numbersText(d.Lost), rescue{d}.withConsent(), recoverAll, strings.ReplaceAll(numbersText(d.Lost), " ", ""))
	}
	return rescue{d}, nil
}

// numbers reads the numbers of partitions.
func (r *record) numbers(list string) (all []int, err error) {
	for _, word := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' }) {
		n, err := r.number(word)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func numbersText(all []int) string {
	var words []string
	for _, n := range all {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ", ")
}

// recover takes `or`, and with masters `all` or `all 0,2`.
func (c *Console) recover(ctx context.Context, a []string) (string, error) {
	switch r := &c.cluster.directory.record; { // whether it has masters never changes
	case r.partitioned() && a[0] != recoverAll:
		return "", fmt.Errorf("protocol %s: no member holds all partitions, so all members that are left go on: `recover %s`", r.Protocol, recoverAll)
	case r.partitioned():
		return c.cluster.RecoverAll(ctx, strings.Join(a[1:], ","))
	case len(a) > 1:
		return "", errors.New("use: recover MEMBER")
	}
	return c.cluster.Recover(ctx, a[0])
}
