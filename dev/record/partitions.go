package record

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// HomeDefault is what takes a home away that was given.
const HomeDefault = "default"

// SitesOf are the sites of a plain view, in the order of turns.
func (r *Record) SitesOf(v view.View) []string {
	there := v.Sites()
	place := func(site string) int {
		if i := slices.Index(r.Homes, site); i >= 0 {
			return i
		}
		return len(r.Homes)
	}
	slices.SortStableFunc(there, func(a, b string) int { return place(a) - place(b) })
	return there
}

// Home is the site that a master was moved to, or what the manifest says, if it is one of those that have members; else
// it is empty.
func (r *Record) Home(partition int, there []string) string {
	for _, given := range [][]string{r.Moved, r.Given} {
		if partition < len(given) && slices.Contains(there, given[partition]) {
			return given[partition]
		}
	}
	return ""
}

// Move gives the master of a partition another home, or takes that away again. The partition goes there once a member
// there has its state. It says what was begun.
func (r *Record) Move(number, site string) (string, error) {
	partition, err := r.Movable(number)
	if err != nil {
		return "", err
	}
	there := r.SitesOf(r.View.After())
	if site != HomeDefault && !slices.Contains(there, site) {
		return "", fmt.Errorf("no member is at site %q; there are %s, or `%s`", site, strings.Join(there, ", "),
			HomeDefault)
	}
	r.Moved = slices.Clone(r.Moved)
	for len(r.Moved) <= partition {
		r.Moved = append(r.Moved, "")
	}
	if r.Moved[partition] = site; site == HomeDefault {
		r.Moved[partition] = ""
		return fmt.Sprintf("partition %d moves to where it is by default, if it is not there", partition), nil
	}
	return fmt.Sprintf("partition %d moves to %s", partition, site), nil
}

// Movable reads the number of a partition whose master can move.
func (r *Record) Movable(number string) (int, error) {
	if !r.Partitioned() {
		return 0, fmt.Errorf("protocol %s has no masters that could move", r.Protocol)
	}
	partition, err := r.Number(number)
	if err != nil {
		return 0, err
	}
	if r.View.Epoch == 0 {
		return 0, errors.New("the cluster is being founded; wait until all members serve")
	}
	return partition, nil
}

// Number reads the number of a partition.
func (r *Record) Number(text string) (int, error) {
	count := max(r.Shards, len(r.View.Partitions)) // that there are, or will be founded
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= count {
		return 0, fmt.Errorf("no partition %q; they are numbered from 0 to %d", text, count-1)
	}
	return n, nil
}

// Numbers reads a list of numbers of partitions, such as 0,2.
func (r *Record) Numbers(list string) (all []int, err error) {
	for _, word := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' }) {
		n, err := r.Number(word)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// WantedShards is how many partitions there are to be: more than the cluster was founded with where some were split, or
// are to be.
func (r *Record) WantedShards() int { return max(r.Shards, r.Wanted) }

// Split wants one partition more: the next one in turn gives it half of its keys. It says which.
func (r *Record) Split() (string, error) {
	switch {
	case !r.Partitioned():
		return "", fmt.Errorf("protocol %s has no masters, and the number of its shards never changes", r.Protocol)
	case r.View.Epoch == 0:
		return "", errors.New("the cluster is being founded; wait until all members serve")
	}
	parent, child := r.View.NextSplit()
	switch {
	case child < r.WantedShards():
		return "", fmt.Errorf("partition %d is being split already, and there are %d of %d partitions; wait until "+
			"all are there",
			parent, child, r.WantedShards())
	case child >= v1alpha1.MaxShards:
		return "", fmt.Errorf("there are %d partitions, and can't be more", child)
	}
	r.Wanted = child + 1
	return fmt.Sprintf("partition %d is split: half of its keys go to partition %d", parent, child), nil
}

// fewer reports that a later manifest wants fewer partitions than an earlier one, or than `split` made. That which the
// directory was made with may stay as it is.
func (r *Record) fewer(shards int) error {
	switch {
	case shards < r.Shards:
		return fmt.Errorf("it was made with shards %d, the manifest has %d: shards are split, and never made fewer",
			r.Shards, shards)
	case shards > r.Shards && shards < r.WantedShards():
		return fmt.Errorf("it has shards %d by now, the manifest has %d: shards are split, and never made fewer; "+
			"ask for %d, or for the %d that it was made with",
			r.WantedShards(), shards, r.WantedShards(), r.Shards)
	}
	return nil
}
