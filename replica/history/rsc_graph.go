package history

import (
	"fmt"
	"strings"

	"github.com/georegister/georegister/replica/history/precedence"
)

// Why one operation comes before another, beside what precedence knows.
const (
	byReading  precedence.Reason = precedence.ByPoint + 1 + iota // the later one found what the earlier one left
	byReplaced                                                   // the later one replaced what the earlier one found
	byCarstamp                                                   // both changed the key, in the order of the carstamps
)

// newRSCGraph draws what holds whatever the order of the writes is: processes, messages, fences and real time.
func newRSCGraph(ops []*rscOp, options RSCOptions) *precedence.Graph {
	operations := make([]precedence.Operation, len(ops))
	for i, o := range ops {
		operations[i] = precedence.Operation{
			Client: o.asker, Learned: o.learned, Invoked: o.Invoked, Returned: o.Returned, Known: o.known,
			Writes: o.writes(), Keys: []string{o.Request.Key},
		}
	}
	return precedence.New(operations, options.Messages, options.Fences, precedence.Regular)
}

// addVersions draws what follows from the order of one key's changes: who found a value comes after who left it, and
// before who replaced it.
func addVersions(g *precedence.Graph, groups []rscGroup) {
	for i, group := range groups {
		next := precedence.NoNode
		if i+1 < len(groups) {
			next = groups[i+1].changer
		}
		g.Add(group.changer, next, byCarstamp)
		for _, o := range group.observers {
			g.Add(group.changer, o, byReading)
			g.Add(o, next, byReplaced)
		}
	}
}

// edgesOf tells a cycle as reasons between operations.
func (c *rscChecker) edgesOf(g *precedence.Graph, cycle precedence.Cycle) []RSCEdge {
	var edges []RSCEdge
	for _, s := range g.Steps(cycle) {
		from, to := c.ops[s.From].Operation, c.ops[s.To].Operation
		edges = append(edges, RSCEdge{From: from, To: to, Why: why(from, to, s)})
	}
	return edges
}

// why says what a step means; its subject is the earlier operation.
func why(from, to Operation, s precedence.Step) string {
	switch s.Why {
	case byReading:
		return "left the value that the next one found"
	case byReplaced:
		return "found the value that the next one replaced"
	case byCarstamp:
		if a, b := from.Result.Carstamp, to.Result.Carstamp; !a.IsZero() && !b.IsZero() {
			return fmt.Sprintf("changed the key before the next one did, by their carstamps %s and %s", a, b)
		}
		return "changed the key before the next one did, by the carstamps of answers"
	}
	return s.Told
}

// explainCycle tells a cycle in words.
func explainCycle(edges []RSCEdge, remark string) string {
	var b strings.Builder
	b.WriteString("each of these operations has to come before the next one, and the last before the first:\n")
	for _, e := range edges {
		fmt.Fprintf(&b, "%s\n    %s\n", list([]Operation{e.From}), e.Why)
	}
	b.WriteString(remark)
	return strings.TrimSuffix(b.String(), "\n")
}
