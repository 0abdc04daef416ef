// Package notation spells what protocols say to each other, for scripts and traces.
package notation

import (
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Member is a for member 1, b for member 2, and so on.
func Member(id view.MemberID) string { return string(rune('a' + id - 1)) }

// Writer is a member, with its incarnation and boot if it is not in its first ones.
func Writer(w register.Writer) string {
	name := Member(view.MemberID(w.Member()))
	if w.Incarnation() <= 1 && w.Boot() <= 1 {
		return name
	}
	return fmt.Sprintf("%s.%d.%d", name, w.Incarnation(), w.Boot())
}

// Tag is timestamp/writer, with +rmws if there are any; 0 for the initial value.
func Tag(timestamp, writer, rmws uint64) string {
	name := "0"
	if timestamp != 0 || writer != 0 {
		name = fmt.Sprintf("%d/%s", timestamp, Writer(register.Writer(writer)))
	}
	if rmws > 0 {
		name += fmt.Sprintf("+%d", rmws)
	}
	return name
}

// Value is a quoted value, or absent.
func Value(present bool, value []byte) string {
	if !present {
		return "absent"
	}
	return fmt.Sprintf("%q", value)
}

// Short is the beginning of a value, quoted.
func Short(b []byte) string {
	const most = 40
	if len(b) > most {
		return fmt.Sprintf("%q... (%d bytes)", b[:most], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// Operation is the coordinator's number of an operation, with the boot if it is not the first; the layout is that of
// package base.
func Operation(op uint64) string {
	name := fmt.Sprintf("#%d", op&(1<<40-1))
	if boot := op >> 40 & 0xffff; boot > 1 {
		name += fmt.Sprintf(" of boot %d", boot)
	}
	return name
}

// Answer is what a command returned.
func Answer(a *peerv1.Answer) string {
	switch {
	case a.Expired:
		return "expired"
	case a.Refused != "":
		return fmt.Sprintf("refused(%s)", a.Refused)
	}
	return Value(a.Present, a.Value)
}

// Call is a function with its arguments.
func Call(function string, args [][]byte) string {
	var texts []string
	for _, a := range args {
		texts = append(texts, string(a))
	}
	return fmt.Sprintf("%s(%s)", function, strings.Join(texts, ", "))
}

// Parts are what is said of something, one after the other.
type Parts []string

// Say adds a part unless it is empty.
func (p *Parts) Say(part string) { p.Add(part != "", "%s", part) }

// Add adds a part if it holds.
func (p *Parts) Add(holds bool, format string, args ...any) {
	if holds {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}
