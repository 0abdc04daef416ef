package server

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/server/resp"
)

// single submits one operation on one key. The key and what the operation holds must be copies: args are
// the parser's.
func (c *connection) single(k *call, op register.Operation, render func([]byte, *call) []byte) bool {
	k.prepare(1)[0].op = op
	k.render = render
	return c.enqueue(k)
}

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

// How replies are made of results; all steps are OK.

func renderValue(b []byte, k *call) []byte { return appendValue(b, k, k.steps[0].result.Value) }

func appendValue(b []byte, k *call, v register.Value) []byte {
	if !v.Present() {
		return resp.AppendNull(b, k.version)
	}
	return resp.AppendBulk(b, v)
}

func renderOK(b []byte, _ *call) []byte { return resp.AppendSimple(b, "OK") }

// renderInt is for functions that reply with a decimal integer.
func renderInt(b []byte, k *call) []byte {
	return append(append(append(b, ':'), k.steps[0].result.Value...), '\r', '\n')
}

// renderOKOrNull is for functions that reply 1 or 0.
func renderOKOrNull(b []byte, k *call) []byte {
	if string(k.steps[0].result.Value) == "1" {
		return resp.AppendSimple(b, "OK")
	}
	return resp.AppendNull(b, k.version)
}

func renderLength(b []byte, k *call) []byte {
	return resp.AppendInt(b, int64(len(k.steps[0].result.Value)))
}

func renderType(b []byte, k *call) []byte {
	if k.steps[0].result.Value.Present() {
		return resp.AppendSimple(b, "string")
	}
	return resp.AppendSimple(b, "none")
}

func renderValues(b []byte, k *call) []byte {
	b = resp.AppendArray(b, len(k.steps))
	for i := range k.steps {
		b = appendValue(b, k, k.steps[i].result.Value)
	}
	return b
}

// renderRange follows GETRANGE: both ends are included, negative ones count from the end of the value.
func renderRange(b []byte, k *call) []byte {
	value := k.steps[0].result.Value
	size := int64(len(value))
	start, end := k.start, k.end
	if start < 0 && end < 0 && start > end {
		return resp.AppendBulk(b, "")
	}
	if start < 0 {
		start = max(size+start, 0)
	}
	if end < 0 {
		end = max(size+end, 0)
	}
	end = min(end, size-1)
	if start > end || size == 0 {
		return resp.AppendBulk(b, "")
	}
	return resp.AppendBulk(b, value[start:end+1])
}

func runGet(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.get(args[1]), renderValue)
}

func runStrLen(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.get(args[1]), renderLength)
}

func runType(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.get(args[1]), renderType)
}

// runSet is a blind write, which takes fewer round trips than an rmw, unless an option asks for the old value
// or depends on it.
func runSet(c *connection, k *call, args [][]byte) bool {
	var nx, xx, get bool
	for _, arg := range args[3:] {
		switch option := strings.ToUpper(string(arg[:min(len(arg), 16)])); option {
		case "NX":
			nx = true
		case "XX":
			xx = true
		case "GET":
			get = true
		case "EX", "PX", "EXAT", "PXAT", "KEEPTTL":
			return c.fail(k, fmt.Sprintf("ERR SET option %s is not supported: this store has no expiry yet", option))
		default:
			return c.fail(k, "ERR syntax error")
		}
	}
	key, value := args[1], args[2]
	switch {
	case nx && xx:
		return c.fail(k, "ERR syntax error")
	case nx && get:
		return c.single(k, c.rmw(key, register.GetAndSetIfAbsent, value), renderValue)
	case xx && get:
		return c.single(k, c.rmw(key, register.GetAndSetPresent, value), renderValue)
	case get:
		return c.single(k, c.rmw(key, register.GetAndSet, value), renderValue)
	case nx:
		return c.single(k, c.rmw(key, register.SetIfAbsent, value), renderOKOrNull)
	case xx:
		return c.single(k, c.rmw(key, register.SetIfPresent, value), renderOKOrNull)
	}
	return c.single(k, write(key, value), renderOK)
}

func runSetNX(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.rmw(args[1], register.SetIfAbsent, args[2]), renderInt)
}

func runGetSet(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.rmw(args[1], register.GetAndSet, args[2]), renderValue)
}

func runGetDel(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.rmw(args[1], register.GetAndDelete), renderValue)
}

func runAppend(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.rmw(args[1], register.Append, args[2]), renderInt)
}

func runCAS(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.rmw(args[1], register.CompareAndSwap, args[2], args[3]), renderInt)
}

func runIncr(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.rmw(args[1], register.Add, []byte("1")), renderInt)
}

func runDecr(c *connection, k *call, args [][]byte) bool {
	return c.single(k, c.rmw(args[1], register.Add, []byte("-1")), renderInt)
}

func runIncrBy(c *connection, k *call, args [][]byte) bool {
	if _, ok := integer(args[2]); !ok {
		return c.fail(k, "ERR "+register.RefusedNotInteger)
	}
	return c.single(k, c.rmw(args[1], register.Add, args[2]), renderInt)
}

func runDecrBy(c *connection, k *call, args [][]byte) bool {
	n, ok := integer(args[2])
	if !ok {
		return c.fail(k, "ERR "+register.RefusedNotInteger)
	}
	if n == -n && n != 0 {
		return c.fail(k, "ERR decrement would overflow")
	}
	return c.single(k, c.rmw(args[1], register.Add, strconv.AppendInt(nil, -n, 10)), renderInt)
}

func runIncrByFloat(c *connection, k *call, args [][]byte) bool {
	if _, err := strconv.ParseFloat(string(args[2]), 64); err != nil {
		return c.fail(k, "ERR "+register.RefusedNotFloat)
	}
	return c.single(k, c.rmw(args[1], register.AddFloat, args[2]), renderValue)
}

func runSetRange(c *connection, k *call, args [][]byte) bool {
	offset, ok := integer(args[2])
	if !ok {
		return c.fail(k, "ERR "+register.RefusedNotInteger)
	}
	if offset < 0 {
		return c.fail(k, "ERR "+register.RefusedOffset)
	}
	return c.single(k, c.rmw(args[1], register.SetRange, args[2], args[3]), renderInt)
}

func runGetRange(c *connection, k *call, args [][]byte) bool {
	start, okStart := integer(args[2])
	end, okEnd := integer(args[3])
	if !okStart || !okEnd {
		return c.fail(k, "ERR "+register.RefusedNotInteger)
	}
	k.start, k.end = start, end
	return c.single(k, c.get(args[1]), renderRange)
}

func runMGet(c *connection, k *call, args [][]byte) bool {
	steps := k.prepare(len(args) - 1)
	for i := range steps {
		steps[i].op = c.get(args[i+1])
	}
	k.render = renderValues
	return c.enqueue(k)
}

func runMSet(c *connection, k *call, args [][]byte) bool {
	if len(args)%2 == 0 {
		return c.wrongArity(k, "mset")
	}
	steps := k.prepare(len(args) / 2)
	for i := range steps {
		steps[i].op = write(args[2*i+1], args[2*i+2])
	}
	k.render = renderOK
	return c.enqueue(k)
}

func runExists(c *connection, k *call, args [][]byte) bool {
	steps := k.prepare(len(args) - 1)
	for i := range steps {
		steps[i].op = c.get(args[i+1])
	}
	k.render = func(b []byte, k *call) []byte {
		count := int64(0)
		for i := range k.steps {
			if k.steps[i].result.Value.Present() {
				count++
			}
		}
		return resp.AppendInt(b, count)
	}
	return c.enqueue(k)
}

// runDel counts exactly with delete.v1. A protocol without rmws reads first and then writes nil: when two
// clients delete a key at once, both may count it.
func runDel(c *connection, k *call, args [][]byte) bool {
	steps := k.prepare(len(args) - 1)
	for i := range steps {
		steps[i].op = c.rmw(args[i+1], register.Delete)
		steps[i].then = deleteWithoutRMW
	}
	k.render = renderDeleted
	return c.enqueue(k)
}

func deleteWithoutRMW(s *step, r register.Result) bool {
	switch {
	case s.op.Kind == register.RMW && r.Status == register.Unsupported:
		s.op = register.Operation{Kind: register.Read, Key: s.op.Key}
		return true
	case s.op.Kind == register.Read && r.Status == register.OK && r.Value.Present():
		s.op = register.Operation{Kind: register.Write, Key: s.op.Key}
		return true
	}
	return false
}

func renderDeleted(b []byte, k *call) []byte {
	count := int64(0)
	for i := range k.steps {
		s := &k.steps[i]
		if s.op.Kind == register.Write || s.op.Kind == register.RMW && string(s.result.Value) == "1" {
			count++
		}
	}
	return resp.AppendInt(b, count)
}

// integer parses as Redis does: no sign but a minus, no leading zeros, no spaces.
func integer(arg []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(arg), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(arg)
}
