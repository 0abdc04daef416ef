package transactions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

// explainMax is how many transactions an explanation lists.
const explainMax = 20

// edges tells a cycle as reasons between transactions.
func (c *checker) edges(g *precedence.Graph, cycle precedence.Cycle) []Edge {
	var edges []Edge
	for _, s := range g.Steps(cycle) {
		edges = append(edges, Edge{From: c.all[s.From], To: c.all[s.To], Why: c.why(s)})
	}
	return edges
}

// why says what a step means; its subject is the earlier transaction.
func (c *checker) why(s precedence.Step) string {
	from, to := int32(s.From), int32(s.To)
	switch s.Why {
	case byReading:
		i := slices.IndexFunc(c.reads[to], func(f found) bool { return f.writer == from })
		return fmt.Sprintf("left the value of key %s that the next one found", name(c.reads[to][i].key))
	case byReplaced:
		i := slices.IndexFunc(c.reads[from], func(f found) bool { return names(c.all[to].Writes, f.key) })
		return fmt.Sprintf("found the value of key %s that the next one replaced, in the proposed order",
			name(c.reads[from][i].key))
	case byVersion:
		i := slices.IndexFunc(c.all[from].Writes, func(a history.Access) bool { return names(c.all[to].Writes, a.Key) })
		return fmt.Sprintf("left a value of key %s before the next one did, in the proposed order",
			name(c.all[from].Writes[i].Key))
	}
	return s.Told
}

// names reports whether a key is among some accesses.
func names(accesses []history.Access, key string) bool {
	return slices.ContainsFunc(accesses, func(a history.Access) bool { return a.Key == key })
}

// who names a transaction within a sentence.
func (c *checker) who(i int32) string {
	return fmt.Sprintf("the transaction of %s that was invoked at %v", c.all[i].Client, c.all[i].Invoked)
}

// explain tells a cycle in words.
func explain(edges []Edge, remark string) string {
	var b strings.Builder
	b.WriteString("each of these transactions has to come before the next one, and the last before the first:\n")
	for _, e := range edges {
		fmt.Fprintf(&b, "%s\n    %s\n", list([]history.Transaction{e.From}), e.Why)
	}
	b.WriteString(remark)
	return strings.TrimSuffix(b.String(), "\n")
}

// failing lists the transactions of a cycle.
func failing(edges []Edge) []history.Transaction {
	var all []history.Transaction
	for _, e := range edges {
		all = append(all, e.From)
	}
	return all
}

// list renders transactions in the order of their invocation, the last ones if they are many.
func list(all []history.Transaction) string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b history.Transaction) int { return cmp.Compare(a.Invoked, b.Invoked) })
	var b strings.Builder
	if more := len(all) - explainMax; more > 0 {
		fmt.Fprintf(&b, "  (%d earlier transactions)\n", more)
		all = all[more:]
	}
	for _, t := range all {
		until := "..."
		if t.Outcome != history.UnknownOutcome {
			until = t.Returned.String()
		}
		fmt.Fprintf(&b, "  [%v, %s] %s: %s\n", t.Invoked, until, t.Client, describe(t))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// describe is a transaction for people.
func describe(t history.Transaction) string {
	var parts []string
	for _, a := range t.Reads {
		parts = append(parts, fmt.Sprintf("found %s under %s", history.DescribeValue(a.Value), name(a.Key)))
	}
	for _, a := range t.Writes {
		parts = append(parts, fmt.Sprintf("left %s under %s", history.DescribeValue(a.Value), name(a.Key)))
	}
	text := strings.Join(parts, ", ") + " -> " + t.Outcome.String()
	if t.ReadOnly {
		text = "read-only: " + text
	}
	if t.Timestamp > 0 {
		text += fmt.Sprintf(" at %d", t.Timestamp)
	}
	return text
}

func name(key string) string { return history.DescribeValue(register.Value(key)) }
