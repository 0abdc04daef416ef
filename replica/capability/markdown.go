package capability

import (
	"fmt"
	"strings"
)

// Markdown renders the table as `georegister protocols` prints it and docs/protocols.md quotes it. Columns
// are padded, so that it reads as plain text too.
func Markdown() string { return Render(Table()) }

// Render is Markdown of another table.
func Render(table []Protocol) string {
	rows := [][]string{{"Protocol", "Members", "Lost members", "Consistency", "Operation", "Round trips", "Quorum"}}
	for _, p := range table {
		for _, op := range p.Operations {
			rows = append(rows, []string{
				p.Name, either(p.Members), "(n - 1) / 2", p.Consistency, op.Kind.String(), op.trips(), op.quorums(),
			})
		}
	}
	return align(rows) + refusals(table) + notes(table)
}

func (op Operation) trips() string {
	switch {
	case op.Refusal != "":
		return "refused"
	case op.Best.RoundTrips == op.Worst.RoundTrips:
		return fmt.Sprint(op.Best.RoundTrips)
	}
	text := fmt.Sprintf("%d, at worst %d", op.Best.RoundTrips, op.Worst.RoundTrips)
	if len(op.BestOnly) > 0 {
		text += fmt.Sprintf("; with %s members always %d", either(op.BestOnly), op.Best.RoundTrips)
	}
	if op.UpTo > 0 {
		text += fmt.Sprintf(" up to %d KiB", op.UpTo>>10)
	}
	return text
}

func (op Operation) quorums() string {
	switch {
	case op.Refusal != "":
		return "-"
	case op.Best.Quorum == op.Worst.Quorum:
		return op.Best.Quorum.String()
	}
	return fmt.Sprintf("%s, at worst %s", op.Best.Quorum, op.Worst.Quorum)
}

// refusals lists the messages that clients get for what a protocol does not have.
func refusals(table []Protocol) string {
	var b strings.Builder
	for _, p := range table {
		for _, op := range p.Operations {
			if op.Refusal != "" {
				fmt.Fprintf(&b, "\n%s refuses %s: \"%s\".\n", p.Name, op.Kind, op.Refusal)
			}
		}
	}
	return b.String()
}

// notes say what the numbers of round trips mean.
func notes(table []Protocol) string {
	var b strings.Builder
	b.WriteString("\nRound trips are those without failures and conflicts; \"at worst\" is with them, short of lost " +
		"messages; \"always\" is as long as " +
		"the members that are asked answer in time.\n")
	for _, p := range table {
		if p.Note != "" {
			fmt.Fprintf(&b, "\n%s: %s.\n", p.Name, p.Note)
		}
	}
	return b.String()
}

// align renders rows as a Markdown table whose first row is the header.
func align(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for r, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %-*s ", widths[i], cell)
		}
		b.WriteString("|\n")
		if r == 0 {
			for _, w := range widths {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}
