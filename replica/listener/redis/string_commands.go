package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/georegister/georegister/replica/register"
)

// get is a read as the connection wants it.
func (c *connection) get(key []byte) register.Operation {
	return register.Operation{Kind: register.Read, Key: string(key), Stale: c.client.readOnly}
}

func write(key, value []byte) register.Operation {
	return register.Operation{Kind: register.Write, Key: string(key), Value: bytes.Clone(value)}
}

func (c *connection) rmw(key []byte, function string, args ...[]byte) register.Operation {
	owned := make([][]byte, len(args))
	for i, arg := range args {
		owned[i] = bytes.Clone(arg)
	}
	return register.Operation{Kind: register.RMW, Key: string(key),
		Call: register.Call{Function: function, Args: owned, MaxValueBytes: c.server.options.Limits.ValueBytes}}
}

// reading serves a command that reads its key.
func reading(render func([]byte, *call) []byte) func(*connection, *call, [][]byte) {
	return func(c *connection, k *call, args [][]byte) { k.single(c.get(args[1]), render) }
}

// updating serves a command whose arguments behind the key are those of an rmw function.
func updating(function string, render func([]byte, *call) []byte) func(*connection, *call, [][]byte) {
	return func(c *connection, k *call, args [][]byte) { k.single(c.rmw(args[1], function, args[2:]...), render) }
}

// adding serves a command that adds a constant to its key.
func adding(n string) func(*connection, *call, [][]byte) {
	return func(c *connection, k *call, args [][]byte) {
		k.single(c.rmw(args[1], register.Add, []byte(n)), renderInt)
	}
}

// readingEach serves a command that reads all of its keys.
func readingEach(render func([]byte, *call) []byte) func(*connection, *call, [][]byte) {
	return func(c *connection, k *call, args [][]byte) {
		for i := range k.prepare(len(args) - 1) {
			k.steps[i].Op = c.get(args[i+1])
		}
		k.render = render
	}
}

// setOption is an option of SET; they can be joined with |.
type setOption uint8

const (
	ifAbsent setOption = 1 << iota
	ifPresent
	getOld
)

var setOptions = map[string]setOption{"NX": ifAbsent, "XX": ifPresent, "GET": getOld}

// expiryOptions are those of SET that are not served.
var expiryOptions = []string{"EX", "PX", "EXAT", "PXAT", "KEEPTTL"}

// setFunctions are what SET with options is. Others exclude each other.
var setFunctions = map[setOption]struct {
	function string
	render   func([]byte, *call) []byte
}{
	ifAbsent:           {register.SetIfAbsent, renderOKOrNull},
	ifPresent:          {register.SetIfPresent, renderOKOrNull},
	getOld:             {register.GetAndSet, renderValue},
	ifAbsent | getOld:  {register.GetAndSetIfAbsent, renderValue},
	ifPresent | getOld: {register.GetAndSetPresent, renderValue},
}

// runSet is a blind write, which takes fewer round trips than an rmw, unless an option asks for the old value
// or depends on it.
func runSet(c *connection, k *call, args [][]byte) {
	if len(args) == 3 {
		k.single(write(args[1], args[2]), renderOK)
		return
	}
	var options setOption
	for _, arg := range args[3:] {
		name := strings.ToUpper(string(arg[:min(len(arg), 16)]))
		option, known := setOptions[name]
		switch {
		case slices.Contains(expiryOptions, name):
			k.fail(fmt.Sprintf("ERR SET option %s is not supported: this store has no expiry yet", name))
			return
		case !known:
			k.fail("ERR syntax error")
			return
		}
		options |= option
	}
	if set, known := setFunctions[options]; known {
		k.single(c.rmw(args[1], set.function, args[2]), set.render)
	} else {
		k.fail("ERR syntax error")
	}
}

// withInteger serves a command whose argument behind the key is an integer.
func withInteger(run func(c *connection, k *call, args [][]byte, n int64)) func(*connection, *call, [][]byte) {
	return func(c *connection, k *call, args [][]byte) {
		if n, ok := integer(args[2]); ok {
			run(c, k, args, n)
		} else {
			k.fail("ERR " + register.RefusedNotInteger)
		}
	}
}

func runIncrBy(c *connection, k *call, args [][]byte, _ int64) {
	k.single(c.rmw(args[1], register.Add, args[2]), renderInt)
}

func runDecrBy(c *connection, k *call, args [][]byte, n int64) {
	if n == -n && n != 0 {
		k.fail("ERR decrement would overflow")
		return
	}
	k.single(c.rmw(args[1], register.Add, strconv.AppendInt(nil, -n, 10)), renderInt)
}

func runIncrByFloat(c *connection, k *call, args [][]byte) {
	if _, err := strconv.ParseFloat(string(args[2]), 64); err == nil {
		k.single(c.rmw(args[1], register.AddFloat, args[2]), renderValue)
	} else {
		k.fail("ERR " + register.RefusedNotFloat)
	}
}

func runSetRange(c *connection, k *call, args [][]byte, offset int64) {
	if offset < 0 {
		k.fail("ERR " + register.RefusedOffset)
		return
	}
	k.single(c.rmw(args[1], register.SetRange, args[2], args[3]), renderInt)
}

func runGetRange(c *connection, k *call, args [][]byte, start int64) {
	end, ok := integer(args[3])
	if !ok {
		k.fail("ERR " + register.RefusedNotInteger)
		return
	}
	k.start, k.end = start, end
	k.single(c.get(args[1]), renderRange)
}

func runMSet(c *connection, k *call, args [][]byte) {
	if len(args)%2 == 0 {
		k.wrongArity("mset")
		return
	}
	for i := range k.prepare(len(args) / 2) {
		k.steps[i].Op = write(args[2*i+1], args[2*i+2])
	}
	k.render = renderOK
}

// runDel counts exactly with delete.v1. A protocol without rmws reads first and then writes nil: when two
// clients delete a key at once, both may count it.
func runDel(c *connection, k *call, args [][]byte) {
	for i := range k.prepare(len(args) - 1) {
		k.steps[i].Op = c.rmw(args[i+1], register.Delete)
		k.steps[i].then = deleteWithoutRMW
	}
	k.render = renderDeleted
}

func deleteWithoutRMW(s *step, r register.Result) bool {
	switch {
	case s.Op.Kind == register.RMW && r.Status == register.Unsupported:
		s.Op = register.Operation{Kind: register.Read, Key: s.Op.Key}
		return true
	case s.Op.Kind == register.Read && r.Status == register.OK && r.Value.Present():
		s.Op = register.Operation{Kind: register.Write, Key: s.Op.Key}
		return true
	}
	return false
}

// integer parses as Redis does: no sign but a minus, no leading zeros, no spaces.
func integer(arg []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(arg), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(arg)
}
