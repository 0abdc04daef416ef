// Package netem is what the stand-in for tc knows: the commands, the tree of queueing disciplines that they describe,
// and when a packet leaves it. It has no clock and no socket.
package netem

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Handle names a queueing discipline (minor 0) or a class of one. Like tc, this takes both halves as hexadecimal.
type Handle struct{ Major, Minor uint16 }

// String writes the handle as tc does.
func (h Handle) String() string {
	if h.Minor == 0 {
		return fmt.Sprintf("%x:", h.Major)
	}
	return fmt.Sprintf("%x:%x", h.Major, h.Minor)
}

// Priority is the mark that iptables' CLASSIFY target puts on a packet of this class.
func (h Handle) Priority() uint32 { return uint32(h.Major)<<16 | uint32(h.Minor) }

// A Verb is what a command does.
type Verb string

// What the stand-in can do; all else is an error.
const (
	Add  Verb = "add"
	Del  Verb = "del"
	Show Verb = "show"
)

// The kinds of queueing disciplines that Chaos Mesh makes for a NetworkChaos of action netem.
const (
	Netem = "netem" // delays
	Prio  = "prio"  // has classes
	SFQ   = "sfq"   // is fair between flows: as good as nothing here
)

// Command is a call of tc.
type Command struct {
	Verb   Verb
	Device string
	Root   bool   // at the root of the device; else below Parent
	Parent Handle // a discipline (minor 0) or a class
	Handle Handle
	Kind   string
	Bands  int  // of prio
	Spec   Spec // of netem
}

// Spec is what a netem does to packets.
type Spec struct {
	Delay            time.Duration // of each packet
	Jitter           time.Duration // at most so much more or less; packets may overtake each other then, as with netem
	DelayCorrelation float64       // 0..1: how much the jitter of a packet is that of the one before
	Loss             float64       // 0..1: the share of packets that are dropped
	LossCorrelation  float64       // 0..1
	Rate             float64       // bytes per second, 0 is unlimited
	Limit            int           // packets that are held at most, 0 is a default that hardly anything reaches
}

// defaultLimit is netem's 1000 packets (sch_netem.c), each of which may be a TCP segment of 64 KiB, in segments of
// 1,448 bytes.
const defaultLimit = 45000

// arguments are those that were not looked at yet.
type arguments []string

func (a *arguments) next() string {
	if len(*a) == 0 {
		return ""
	}
	first := (*a)[0]
	*a = (*a)[1:]
	return first
}

// number tells whether what comes is a number with or without a unit, and not the next keyword.
func (a arguments) number() bool { return len(a) > 0 && strings.ContainsAny(a[0][:1], "0123456789.") }

// Parse reads the arguments of a call of tc. Options such as -s, which change what is printed, are ignored.
func Parse(args []string) (Command, error) {
	a := arguments(
		slices.DeleteFunc(slices.Clone(args), func(s string) bool { return strings.HasPrefix(s, "-") || s == "" }))
	var c Command
	if object := a.next(); object != "qdisc" {
		return c, fmt.Errorf("the stand-in for tc knows no %q: want qdisc", object)
	}
	switch verb := a.next(); Verb(verb) {
	case Add, Del, Show:
		c.Verb = Verb(verb)
	case "":
		c.Verb = Show
	default:
		return c, fmt.Errorf("the stand-in for tc knows no qdisc %q: want add, del or show", verb)
	}
	var err error
	for len(a) > 0 && err == nil {
		switch word := a.next(); word {
		case "dev":
			c.Device = a.next()
		case "root":
			c.Root = true
		case "parent":
			c.Parent, err = parseHandle(a.next())
		case "handle":
			c.Handle, err = parseHandle(a.next())
		case Netem:
			c.Kind = word
			c.Spec, err = parseSpec(&a)
		case Prio:
			c.Kind = word
			c.Bands, err = parsePrio(&a)
		case SFQ:
			c.Kind, a = word, nil
		default:
			err = fmt.Errorf("the stand-in for tc knows no %q", word)
		}
	}
	if err == nil {
		err = c.check()
	}
	return c, err
}

// check tells what a command lacks.
func (c Command) check() error {
	switch {
	case c.Verb != Show && c.Device == "":
		return fmt.Errorf("dev is missing")
	case c.Verb == Del && !c.Root:
		return fmt.Errorf("the stand-in for tc deletes whole trees only: want root")
	case c.Verb != Add:
		return nil
	case c.Kind == "":
		return fmt.Errorf("the kind is missing: want netem, prio or sfq")
	case c.Handle.Major == 0 || c.Handle.Minor != 0:
		return fmt.Errorf("handle %s: want a number and a colon", c.Handle)
	case c.Root == (c.Parent != Handle{}):
		return fmt.Errorf("want either root or a parent")
	}
	return nil
}

func parseHandle(text string) (Handle, error) {
	major, minor, ok := strings.Cut(text, ":")
	a, err := strconv.ParseUint(major, 16, 16)
	if err != nil || !ok {
		return Handle{}, fmt.Errorf("%q is no handle: want MAJOR: or MAJOR:MINOR, hexadecimal", text)
	}
	if minor == "" {
		return Handle{Major: uint16(a)}, nil
	}
	b, err := strconv.ParseUint(minor, 16, 16)
	if err != nil {
		return Handle{}, fmt.Errorf("%q is no handle: want MAJOR: or MAJOR:MINOR, hexadecimal", text)
	}
	return Handle{uint16(a), uint16(b)}, nil
}

// parsePrio reads what follows prio. The priomap is of no consequence: its bands do nothing.
func parsePrio(a *arguments) (bands int, err error) {
	bands = 3
	for len(*a) > 0 {
		switch word := a.next(); word {
		case "bands":
			if bands, err = strconv.Atoi(a.next()); err != nil || bands < 2 || bands > 16 {
				return 0, fmt.Errorf("bands: want 2 to 16")
			}
		case "priomap":
			for a.number() {
				a.next()
			}
		default:
			return 0, fmt.Errorf("prio: the stand-in for tc knows no %q", word)
		}
	}
	return bands, nil
}

func parseSpec(a *arguments) (s Spec, err error) {
	// more sets each of the values as long as there are numbers.
	more := func(values ...func(string) error) {
		for i, set := range values {
			if err != nil || (i > 0 && !a.number()) {
				return
			}
			err = set(a.next())
		}
	}
	for len(*a) > 0 && err == nil {
		switch word := a.next(); word {
		case "delay":
			more(duration(&s.Delay), duration(&s.Jitter), percentage(&s.DelayCorrelation))
		case "loss":
			if len(*a) > 0 && (*a)[0] == "random" {
				a.next()
			}
			more(percentage(&s.Loss), percentage(&s.LossCorrelation))
		case "rate":
			more(rate(&s.Rate))
		case "limit":
			s.Limit, err = strconv.Atoi(a.next())
		default:
			err = fmt.Errorf("netem: the stand-in for tc knows no %q: want delay, loss, rate or limit", word)
		}
	}
	return s, err
}

// cut splits a number from its unit.
func cut(text string) (value float64, unit string, err error) {
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.", r) })
	if end < 0 {
		end = len(text)
	}
	value, err = strconv.ParseFloat(text[:end], 64)
	return value, strings.ToLower(text[end:]), err
}

// duration reads a time as tc writes it: microseconds, if it has no unit.
func duration(d *time.Duration) func(string) error {
	units := map[string]time.Duration{
		"": time.Microsecond, "us": time.Microsecond, "usec": time.Microsecond, "usecs": time.Microsecond,
		"ms": time.Millisecond, "msec": time.Millisecond, "msecs": time.Millisecond,
		"s": time.Second, "sec": time.Second, "secs": time.Second,
	}
	return func(text string) error {
		value, name, err := cut(text)
		unit, ok := units[name]
		if err != nil || !ok {
			return fmt.Errorf("%q is no time: want a number with us, ms or s", text)
		}
		*d = time.Duration(value * float64(unit))
		return nil
	}
}

// percentage reads a share in percent.
func percentage(p *float64) func(string) error {
	return func(text string) error {
		value, unit, err := cut(text)
		if err != nil || unit != "" && unit != "%" || value > 100 {
			return fmt.Errorf("%q is no percentage: want 0 to 100", text)
		}
		*p = value / 100
		return nil
	}
}

// rate reads a rate as tc writes it: "bit" counts bits and "bps" counts bytes, both per second; without a unit it is
// bits.
func rate(r *float64) func(string) error {
	return func(text string) error {
		value, unit, err := cut(text)
		bytes, isBytes := strings.CutSuffix(unit, "bps")
		prefix, bits := bytes, 8.0
		if isBytes {
			bits = 1
		} else {
			prefix = strings.TrimSuffix(unit, "bit")
		}
		factor, ok := map[string]float64{
			"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
		}[prefix]
		if err != nil || !ok || value <= 0 {
			return fmt.Errorf("%q is no rate: want a positive number with kbit, mbit, gbit, kbps, mbps or gbps", text)
		}
		*r = value * factor / bits
		return nil
	}
}
