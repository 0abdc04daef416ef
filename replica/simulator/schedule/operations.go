package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Script makes operations whose answers tell as much as possible: written values are unique, counters and logs
// show each execution, and compare-and-swap expects values that may well be there.
type Script struct {
	draw  kernel.Stream
	rmws  int
	Reads int // of 1000 operations that are no rmws
	Keys  int
	count int
	last  map[string]register.Value // of each key; never ranged over

	Large      int  // bytes of each second value that is written; 0: all are short
	Idempotent bool // updates are those that may be applied more than once
}

// NewScript draws what a script is like: with so many rmws of 1000 operations.
func NewScript(draw kernel.Stream, rmws int) *Script {
	reads := 200 + draw.Below(600)
	return &Script{draw: draw, rmws: rmws, Reads: reads, Keys: 1 + draw.Below(10)/7, last: map[string]register.Value{}}
}

// Prefixes of keys tell which operations touch them.
const (
	CounterPrefix = "counter-" // add and read
	LogPrefix     = "log-"     // append and read
	MixedPrefix   = "mixed-"   // everything
)

func (s *Script) Operation() register.Operation {
	s.count++
	if s.Idempotent {
		return s.repeatable()
	}
	prefix := MixedPrefix
	if s.rmws >= 100 {
		prefix = []string{MixedPrefix, MixedPrefix, MixedPrefix, CounterPrefix, LogPrefix}[s.draw.Below(5)]
	}
	key := prefix + strconv.Itoa(s.draw.Below(s.Keys))
	if prefix == MixedPrefix {
		return s.mixed(key)
	}
	switch {
	case s.draw.Chance(s.Reads):
		return register.Operation{Kind: register.Read, Key: key}
	case prefix == CounterPrefix:
		return Call(key, register.Add, "1")
	default:
		return Call(key, register.Append, fmt.Sprintf("<%d>", s.count))
	}
}

func (s *Script) mixed(key string) register.Operation {
	unique := strconv.Itoa(s.count * 1000) // an integer, so that add applies to it
	switch {
	case s.draw.Chance(s.rmws):
		return s.rmw(key, unique)
	case !s.draw.Chance(s.Reads):
		if s.draw.Chance(40) {
			return register.Operation{Kind: register.Write, Key: key} // deletes
		}
		if short := s.Large - len(unique); short > 0 && s.count%2 == 0 {
			unique = strings.Repeat("0", short) + unique // the same integer
		} else if s.Large > 0 && s.count%10 == 1 {
			unique = "\xc1\x00" + unique // as what stands for a large value begins, and such a small one
		}
		s.last[key] = register.Value(unique)
		return register.Operation{Kind: register.Write, Key: key, Value: register.Value(unique)}
	}
	return register.Operation{Kind: register.Read, Key: key}
}

func (s *Script) rmw(key, unique string) register.Operation {
	switch s.draw.Below(8) {
	case 0, 1:
		expected := string(s.last[key])
		s.last[key] = register.Value(unique)
		return Call(key, register.CompareAndSwap, expected, unique)
	case 2, 3:
		s.last[key] = register.Value(unique)
		return Call(key, register.GetAndSet, unique)
	case 4:
		return Call(key, register.Append, fmt.Sprintf("<%d>", s.count))
	case 5:
		return Call(key, register.SetIfAbsent, unique)
	case 6:
		return Call(key, []string{register.Delete, register.GetAndDelete}[s.draw.Below(2)])
	}
	return Call(key, register.Add, "1")
}

func Call(key, function string, args ...string) register.Operation {
	op := register.Operation{Kind: register.RMW, Key: key, Call: register.Call{Function: function}}
	for _, a := range args {
		op.Call.Args = append(op.Call.Args, []byte(a))
	}
	return op
}

// Prefixes of keys of schedules whose updates may be applied more than once.
const (
	newestPrefix  = "newest-"  // set-newest and read
	membersPrefix = "members-" // add-member and read
)

// repeatable is a read, or an update that may be applied more than once: with versions that grow, but for some, or of
// members most of which are new. On mixed keys one function refuses what the other has made.
func (s *Script) repeatable() register.Operation {
	prefix := []string{newestPrefix, newestPrefix, membersPrefix, membersPrefix, MixedPrefix}[s.draw.Below(5)]
	key := prefix + strconv.Itoa(s.draw.Below(s.Keys))
	if s.draw.Chance(s.Reads) {
		return register.Operation{Kind: register.Read, Key: key}
	}
	if prefix == newestPrefix || prefix == MixedPrefix && s.draw.Chance(500) {
		version := max(1, s.count-s.draw.Below(8)*s.draw.Below(8))
		return Call(key, register.SetNewest, strconv.Itoa(version), fmt.Sprintf("<%d>", s.count))
	}
	member := s.count
	if s.draw.Chance(300) {
		member = s.draw.Below(s.count)
	}
	return Call(key, register.AddMember, strconv.Itoa(member))
}

// contend has operations meet more often than those of other schedules: a regular read differs from another one only
// while a write is on its way. It returns how long a client takes for an operation.
func (s *Script) contend(draw kernel.Stream, pace time.Duration) time.Duration {
	s.Keys = 1 + draw.Below(3)
	if draw.Chance(600) {
		s.rmws = FewRMWs
	}
	s.Reads = 400 + draw.Below(500)
	return pace * time.Duration(20+draw.Below(131)) / 100
}
