package register

import (
	"bytes"
	"slices"
	"strconv"
)

// The built-in functions that may be applied more than once. Their values begin differently, so that each refuses those
// of the other: if both were taken for one key, what one has done could be undone by the other, and then done again.
// Neither tells what it has found, which would be another thing the next time.
const (
	// Decimal version, content -> nothing; the value is "version content", of the highest version.
	SetNewest = "set-newest.v1"
	// member, without a line break -> nothing; the value is a line "+member" for each, sorted
	AddMember = "add-member.v1"
)

// Refusals of idempotent functions.
const (
	RefusedVersion    = "version is not a decimal integer from 0 to 18446744073709551615"
	RefusedUnversed   = "value has no version: it was not made by " + SetNewest
	RefusedLineBreak  = "member has a line break"
	RefusedNoMembers  = "value is no list of members: it was not made by " + AddMember
	memberMark        = "+"
	versionTerminator = " "
)

func idempotents() []Function {
	return []Function{
		{Name: "set-newest", Version: 1, Args: 2, Idempotent: true, Apply: setNewest},
		{Name: "add-member", Version: 1, Args: 1, Idempotent: true, Apply: addMember},
	}
}

// setNewest keeps the content of the highest version, and of equal ones the first.
func setNewest(v Value, a [][]byte, _ int) Outcome {
	version, ok := parseVersion(a[0])
	if !ok {
		return Outcome{Refused: RefusedVersion}
	}
	if v.Present() {
		text, _, found := bytes.Cut(v, []byte(versionTerminator))
		current, ok := parseVersion(text)
		if !found || !ok {
			return Outcome{Refused: RefusedUnversed}
		}
		if current >= version {
			return Outcome{}
		}
	}
	return Outcome{Next: slices.Concat(a[0], []byte(versionTerminator), a[1]), Changed: true}
}

// parseVersion takes one spelling for each number, as versions are compared by what is stored.
func parseVersion(text []byte) (uint64, bool) {
	n, err := strconv.ParseUint(string(text), 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == string(text)
}

// addMember adds a line to a sorted list, unless it is there.
func addMember(v Value, a [][]byte, _ int) Outcome {
	if bytes.IndexByte(a[0], '\n') >= 0 {
		return Outcome{Refused: RefusedLineBreak}
	}
	line := slices.Concat([]byte(memberMark), a[0], []byte("\n"))
	at := 0
	if v.Present() {
		if len(v) == 0 || v[len(v)-1] != '\n' {
			return Outcome{Refused: RefusedNoMembers}
		}
		for end := 0; end < len(v); {
			start := end
			end += bytes.IndexByte(v[start:], '\n') + 1
			switch {
			case !bytes.HasPrefix(v[start:end], []byte(memberMark)):
				return Outcome{Refused: RefusedNoMembers}
			case bytes.Equal(v[start:end], line):
				return Outcome{}
			case bytes.Compare(v[start:end], line) < 0:
				at = end
			}
		}
	}
	return Outcome{Next: slices.Concat(v[:at], line, v[at:]), Changed: true}
}
