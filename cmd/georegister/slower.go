package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// slowerBy is by how many milliseconds a protocol has to be slower to be said to be: a disk and a local hop take less.
const slowerBy = 1

// leaderBased is the protocol that those with a fast path are compared with.
const leaderBased = "Raft"

// waits says what the fast path with a quorum waits for, and Raft does not.
var waits = map[capability.Quorum]string{
	capability.Majority:    "a majority of all members, wherever it is asked",
	capability.AllButOne:   "all members but one",
	capability.AllButTwo:   "all members but two",
	capability.Replicas:    "the key's master and all of its witnesses, of which the farthest counts",
	capability.Superquorum: "the leader and a superquorum, of which the farthest counts",
}

// printSlower says at which sites protocols with a fast path are slower than Raft, at the median and the 99th
// percentile, and why: the fast path itself is longer there, or too many operations do not take it.
func printSlower(out io.Writer, rows []compared, sites []string) error {
	var raft map[register.Kind]workload.KindFigures
	for _, row := range rows {
		if row.protocol.Name == leaderBased {
			raft = row.figures
		}
	}
	var lines []string
	for _, row := range rows {
		if row.protocol.Name == leaderBased || raft == nil {
			continue
		}
		for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
			op := row.protocol.Operation(kind)
			if op.Refusal != "" || op.Best.RoundTrips > 1 || op.Best == op.Worst {
				continue // it has no fast path, which is of one round trip at most
			}
			s := slower{op, row.figures[kind], raft[kind]}
			lines = append(lines, s.lines(row.name, sites)...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "Slower than %s, of the protocols with a fast path (its figure in brackets):\n  %s\n\n",
		leaderBased, strings.Join(lines, "\n  "))
	return err
}

// slower compares one kind of operations of a protocol with Raft's.
type slower struct {
	op   capability.Operation
	own  workload.KindFigures
	raft workload.KindFigures
}

// percentile is a figure, and the share of operations that it leaves out.
type percentile struct {
	name string
	of   func(workload.Figures) float64
	rest float64
}

var percentiles = []percentile{
	{"p50", func(f workload.Figures) float64 { return f.P50 }, 0.5},
	{"p99", func(f workload.Figures) float64 { return f.P99 }, 0.01},
}

// lines are one for each percentile and reason.
func (s slower) lines(name string, sites []string) (lines []string) {
	for _, p := range percentiles {
		var long, few []string // sites of the two reasons
		missed := 0.0          // the largest share without the fast path at those of the second one
		for _, site := range sites {
			own, raft := s.own.Sites[site], s.raft.Sites[site]
			if own.Count == 0 || raft.Count == 0 || p.of(own) <= p.of(raft)+slowerBy {
				continue
			}
			text := fmt.Sprintf("%s %.1f (%.1f)", site, p.of(own), p.of(raft))
			if left := 1 - own.FastPathRate; left > p.rest {
				few, missed = append(few, text), max(missed, left)
			} else {
				long = append(long, text)
			}
		}
		begin := fmt.Sprintf("%s, %s %s: ", name, s.op.Kind, p.name)
		if len(long) > 0 {
			lines = append(lines, begin+strings.Join(long, ", ")+": the fast path waits for "+waits[s.op.Best.Quorum])
		}
		if len(few) > 0 {
			lines = append(lines, begin+strings.Join(few, ", ")+
				fmt.Sprintf(": up to %.1f%% of them do not take the fast path", 100*missed))
		}
	}
	return lines
}
