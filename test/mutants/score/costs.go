package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/georegister/georegister/replica/simulator"
)

// A mutant that keeps all promises may still cost more when something goes wrong, where experiments see nothing of it:
// a message that is not sent again, or asked for once too often. So what schedules cost is compared with what the same
// schedules cost without the mutant.
//
// Whatever changes the order of events has a schedule go on in another way from there, in which everything costs more or
// less by chance. Of schedules that differ, as many cost more as cost less then. A mutant is found if so many of them
// cost more that this happens by chance in one of a hundred million comparisons: a sign test.
const byChance = 1e-8

// How many times what they were the costs of the schedules that differ have to be, in sum: of random ones, and of drawn
// plain runs, in which less else costs anything.
const (
	overall      = 1.005
	overallPlain = 1.001
)

// measures are what is compared of a cost, by what people are told, with how much more of it is little in a plain run.
var measures = []struct {
	what   string
	of     func(simulator.Cost) float64
	little float64
}{
	{"reads take longer", func(c simulator.Cost) float64 { return c.Reads.Seconds() }, 0.1},
	{"updates take longer", func(c simulator.Cost) float64 { return c.Updates.Seconds() }, 0.1},
	{"more outcomes are unknown", func(c simulator.Cost) float64 { return float64(c.Unknown) }, 1},
	{"members are not done for longer", func(c simulator.Cost) float64 { return c.Unready.Seconds() }, 0.05},
	{"members are behind others for longer", func(c simulator.Cost) float64 { return c.Behind.Seconds() }, 0.05},
	{"it lasts longer", func(c simulator.Cost) float64 { return c.Lasted.Seconds() }, 0.1},
	{"more messages", func(c simulator.Cost) float64 { return float64(c.Messages) }, moreOnce},
	{"more bytes of messages", func(c simulator.Cost) float64 { return float64(c.Bytes) }, 0},
	{"more batches of records", func(c simulator.Cost) float64 { return float64(c.Batches) }, moreOnce},
	{"more is stored in the end", func(c simulator.Cost) float64 { return float64(c.Stored) }, 0},
	{"more is held in memory in the end", func(c simulator.Cost) float64 { return float64(c.Held) }, 0},
}

// manySchedules is how many it takes to tell chance from what costs a little more.
const manySchedules = 3000

// costings are what the schedules of hunts cost without a mutant, by hunt and seeds. The zero value has none.
type costings struct{ once[[]simulator.Cost] }

// add runs some schedules of a hunt with a mutant, and adds what they cost to a comparison with what they cost without.
func (all *costings) add(ctx context.Context, program, mutant string, h hunt, first, count int, to *comparison) (
	verdict, error,
) {
	was, err := all.without(ctx, program, h, first, count)
	if err != nil {
		return verdict{}, err
	}
	is, v, err := weigh(ctx, program, mutant, h, first, count)
	if err == nil && v.how == "" {
		to.add(was, is)
	}
	return v, err
}

func (all *costings) without(ctx context.Context, program string, h hunt, first, count int) ([]simulator.Cost, error) {
	return all.of(fmt.Sprint(h.by, " ", first, " ", count), func() ([]simulator.Cost, error) {
		c, v, err := weigh(ctx, program, "", h, first, count)
		if err == nil && v.how != "" {
			err = fmt.Errorf("the code without a mutant goes wrong, with %v: %s: %s", h.arguments, v.how, v.reason)
		}
		return c, err
	})
}

// weigh runs schedules of a hunt, and returns what they cost, by seed.
func weigh(ctx context.Context, program, mutant string, h hunt, first, count int) (
	all []simulator.Cost, v verdict, err error,
) {
	to, err := os.MkdirTemp("", "costs-")
	if err != nil {
		return nil, v, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	path := filepath.Join(to, "costs")
	h.arguments = append([]string{"--costs", path}, h.arguments...)
	if v, err = search(ctx, program, mutant, h, first, count); err != nil || v.how != "" {
		return nil, v, err
	}
	all, err = readCosts(path)
	return all, v, err
}

// readCosts reads a file of costs.
func readCosts(path string) (all []simulator.Cost, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := json.NewDecoder(file); ; {
		var c simulator.Cost
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, c)
	}
}

// comparison is of what the same schedules cost without a mutant and with it, for each of the measures.
type comparison struct{ measured []tallied }

// tallied are schedules that cost more or less of something than without the mutant.
type tallied struct {
	differ, more int
	was, is      float64 // in sum
}

// add adds schedules, which are found by their seeds.
func (c *comparison) add(was, is []simulator.Cost) {
	if c.measured == nil {
		c.measured = make([]tallied, len(measures))
	}
	before := map[uint64]simulator.Cost{}
	for _, a := range was {
		before[a.Seed] = a
	}
	for i, m := range measures {
		t := &c.measured[i]
		for _, b := range is {
			a, known := before[b.Seed]
			x, y := m.of(a), m.of(b)
			if !known || x == y {
				continue
			}
			t.differ++
			t.was, t.is = t.was+x, t.is+y
			if y > x {
				t.more++
			}
		}
	}
}

// verdict says what schedules cost more of than they did, at least so many times as much of it, or nothing.
func (c *comparison) verdict(overall float64) string {
	for i, t := range c.measured {
		if chance(t.more, t.differ) < byChance && t.is > t.was*overall {
			return fmt.Sprintf("%s: in %d of %d schedules that differ, %s and not %s in the mean", measures[i].what, t.more,
				t.differ, figure(t.is/float64(t.differ)), figure(t.was/float64(t.differ)))
		}
	}
	return ""
}

// chance is the probability that so many or more of some coins show heads.
func chance(heads, coins int) (p float64) {
	for k := heads; k <= coins; k++ {
		p += math.Exp(choose(coins, k) - float64(coins)*math.Ln2)
	}
	return p
}

// choose is the logarithm of how many sets of k there are of n.
func choose(n, k int) float64 {
	of := func(n int) float64 { l, _ := math.Lgamma(float64(n) + 1); return l }
	return of(n) - of(k) - of(n-k)
}

func figure(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
