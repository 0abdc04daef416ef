package explorer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/georegister/georegister/replica/register"
)

// Bounds of a scope. All of them are far above what can be explored.
const (
	maxMembers    = 9
	maxOperations = 16
	maxFaults     = 15 // of each kind
	maxAttempts   = 32 // operations, and the last reads
)

// Check reports what makes a scope none.
func (s *Scope) Check() error {
	for _, of := range []func() error{s.CheckMembers, s.CheckOperations, s.CheckFaults} {
		if err := of(); err != nil {
			return err
		}
	}
	return nil
}

// CheckMembers reports what makes a scope none, of how many members there are.
func (s *Scope) CheckMembers() error {
	if s.Members < 1 || s.Members > maxMembers {
		return fmt.Errorf("%d members; give 1 to %d", s.Members, maxMembers)
	}
	_, err := s.views()
	return err
}

// CheckOperations reports what makes a scope none, of its operations.
func (s *Scope) CheckOperations() error {
	count := 0
	for _, session := range append(append([]Session{}, s.Before...), s.Sessions...) {
		if session.Member < 0 || session.Member >= s.Members {
			return fmt.Errorf("an operation is at member %d, and the last one is %d", session.Member+1, s.Members)
		}
		count += len(session.Operations)
	}
	if len(s.Sessions) == 0 || count > maxOperations {
		return fmt.Errorf("%d operations; give 1 to %d", count, maxOperations)
	}
	if all := count + s.Members*len(s.keys()); all > maxAttempts {
		return fmt.Errorf("%d operations, with a last read of each key at each member; give at most %d", all,
			maxAttempts)
	}
	return nil
}

// CheckFaults reports what makes a scope none, of its faults.
func (s *Scope) CheckFaults() error {
	views, err := s.views()
	if err != nil {
		return err
	}
	if s.Partitioned && s.Faults.Takeovers >= len(views) {
		return fmt.Errorf("takeover=%d; with masters, give at most %d", s.Faults.Takeovers, len(views)-1)
	}
	for _, f := range faultNames {
		if n := *f.of(&s.Faults); n < 0 || n > maxFaults {
			return fmt.Errorf("%s=%d; give 0 to %d", f.name, n, maxFaults)
		}
	}
	return nil
}

// faultNames are how people call the faults.
var faultNames = []struct {
	name string
	of   func(*Faults) *int
}{
	{"timeout", func(f *Faults) *int { return &f.Timeouts }},
	{"takeover", func(f *Faults) *int { return &f.Takeovers }},
	{"loss", func(f *Faults) *int { return &f.Losses }},
	{"duplicate", func(f *Faults) *int { return &f.Duplicates }},
	{"crash", func(f *Faults) *int { return &f.Crashes }},
}

// FaultNames lists them.
func FaultNames() (all []string) {
	for _, f := range faultNames {
		all = append(all, f.name)
	}
	return all
}

// ParseFaults reads a list such as "loss, timeout=2": a name without a number is one such fault. Empty, or "none", is
// none.
func ParseFaults(text string) (Faults, error) {
	var faults Faults
	if text == "" || text == "none" {
		return faults, nil
	}
	given := map[string]bool{}
next:
	for word := range strings.SplitSeq(text, ",") {
		name, number, counted := strings.Cut(word, "=")
		name = strings.TrimSpace(name)
		if given[name] {
			return faults, fmt.Errorf("%s is there twice; give how many there may be in all, as in %s=2", name, name)
		}
		given[name] = true
		for _, f := range faultNames {
			if f.name != name {
				continue
			}
			n, err := 1, error(nil)
			if counted {
				n, err = strconv.Atoi(strings.TrimSpace(number))
			}
			if err != nil || n < 0 || n > maxFaults {
				return faults, fmt.Errorf("%q: give a number from 0 to %d, as in %s=2", word, maxFaults, name)
			}
			*f.of(&faults) = n
			continue next
		}
		return faults, fmt.Errorf("unknown fault %q; use none, or a list of %s", name, strings.Join(FaultNames(), ", "))
	}
	return faults, nil
}

// String is the faults as ParseFaults reads them.
func (f Faults) String() string {
	var words []string
	for _, kind := range faultNames {
		switch n := *kind.of(&f); n {
		case 0:
		case 1:
			words = append(words, kind.name)
		default:
			words = append(words, fmt.Sprintf("%s=%d", kind.name, n))
		}
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, ",")
}

// ParseSessions reads sessions such as "1: write, read; 2: write k v". Semicolons are between sessions, commas between
// the operations of one. A number and a colon name the member of a session; without, the first is at member 1, the
// second at member 2, and so on, again from 1 after the last member. The operations are
//
//	write [KEY [VALUE]]               every value that is left out is another one
//	read [KEY]
//	rmw [KEY [FUNCTION [ARGUMENT]...]]  append.v1 of a letter of its own, if nothing is said
//	fence                             if the protocol is regular
//
// A key that is left out is k.
func ParseSessions(text string, members int) ([]Session, error) {
	var sessions []Session
	number := 0 // of operations
	for part := range strings.SplitSeq(text, ";") {
		session := Session{Member: len(sessions) % max(members, 1)}
		if at, rest, found := strings.Cut(part, ":"); found {
			n, err := strconv.Atoi(strings.TrimSpace(at))
			if err != nil || n < 1 || n > members {
				return nil, fmt.Errorf("%q: name a member from 1 to %d before the colon", strings.TrimSpace(part),
					members)
			}
			session.Member, part = n-1, rest
		}
		for text := range strings.SplitSeq(part, ",") {
			op, err := parseOperation(text, number)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", strings.TrimSpace(text), err)
			}
			number++
			session.Operations = append(session.Operations, op)
		}
		sessions = append(sessions, session)
	}
	return sessions, nil
}

// parseOperation reads an operation, of which there were so many before.
func parseOperation(text string, before int) (register.Operation, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return register.Operation{}, errors.New("give an operation, such as write")
	}
	own := string(rune('a' + before%26))
	op := register.Operation{Key: "k"}
	rest := words[1:]
	if len(rest) > 0 {
		op.Key, rest = rest[0], rest[1:]
	}
	switch words[0] {
	case "read":
		op.Kind = register.Read
	case "write":
		op.Kind, op.Value = register.Write, register.Value(own)
		if len(rest) > 0 {
			op.Value, rest = register.Value(rest[0]), rest[1:]
		}
	case "rmw":
		op.Kind = register.RMW
		op.Call = register.Call{Function: register.Append, Args: [][]byte{[]byte(own)}, MaxValueBytes: 1 << 10}
		if len(rest) > 0 {
			op.Call.Function, op.Call.Args = rest[0], nil
			for _, argument := range rest[1:] {
				op.Call.Args = append(op.Call.Args, []byte(argument))
			}
			rest = nil
		}
		if err := register.NewRegistry().Check(op.Call); err != nil {
			return op, err
		}
	case "fence":
		if len(words) > 1 {
			return op, errors.New("a fence has no key")
		}
		return register.Operation{Kind: register.Fence}, nil
	default:
		return op, fmt.Errorf("unknown operation %q; use read, write, rmw or fence", words[0])
	}
	if len(rest) > 0 {
		return op, fmt.Errorf("%q is too much", strings.Join(rest, " "))
	}
	return op, nil
}
