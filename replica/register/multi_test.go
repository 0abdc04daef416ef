package register

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func call(function string, args ...string) Call {
	return Call{Function: function, Args: arguments(args...)}
}

func multi(guard []byte, calls ...Call) Call {
	return Call{Function: Multi, Args: [][]byte{guard, EncodeCalls(calls)}, MaxValueBytes: 100}
}

func TestCallsOnOneValueAreOne(t *testing.T) {
	for _, c := range []struct {
		name    string
		current Value
		call    Call
		next    Value
		changed bool
		replies []Reply
	}{
		{
			"in turn", Value("1"), multi(nil, call(Add, "2"), call(Get), call(Set, "x"), call(GetAndDelete), call(Get)),
			nil, true, []Reply{{Value: Value("3")}, {Value: Value("3")}, {}, {Value: Value("x")}, {}},
		},
		{
			"one refuses", Value("x"), multi(nil, call(Add, "2"), call(Append, "y")), Value("xy"), true,
			[]Reply{{Refused: RefusedNotInteger}, {Value: Value("2")}},
		},
		{
			"one is too large", Value("x"), multi(nil, call(Append, strings.Repeat("y", 100)), call(Append, "z")),
			Value("xz"), true,
			[]Reply{{Refused: "value of 101 bytes is too large: the limit is 100 bytes"}, {Value: Value("2")}},
		},
		{"nothing changes", Value("x"), multi(nil, call(Get)), nil, false, []Reply{{Value: Value("x")}}},
		{"no calls", Value("x"), multi(nil), nil, false, nil},
		{"an empty value", nil, multi(nil, call(Set, ""), call(Get)), Value{}, true, []Reply{{}, {Value: Value{}}}},
		{"a guard", Value("x"), multi(Guard(Value("x")), call(Set, "y")), Value("y"), true, []Reply{{}}},
		{"a guard of absence", nil, multi(Guard(nil), call(Set, "y")), Value("y"), true, []Reply{{}}},
	} {
		out, err := NewRegistry().Apply(c.current, c.call)
		replies, done, decoded := DecodeReplies(out.Reply)
		if err != nil || out.Refused != "" || out.Changed != c.changed || c.changed && !out.Next.Equal(c.next) {
			t.Errorf("%s: %+v, %v", c.name, out, err)
		}
		if !done || decoded != nil || !reflect.DeepEqual(replies, c.replies) {
			t.Errorf("%s: replies %+v, %t, %v", c.name, replies, done, decoded)
		}
	}
	for _, guard := range []Value{nil, {}, Value("y")} {
		out, err := NewRegistry().Apply(Value("x"), multi(Guard(guard), call(Set, "z")))
		_, done, decoded := DecodeReplies(out.Reply)
		if err != nil || out.Changed || out.Refused != "" || done || decoded != nil {
			t.Errorf("guard of %q: %+v, %v", guard, out, err)
		}
	}
}

// What a call keeps is no part of its arguments, which hold all other calls, too.
func TestAMultiKeepsNoArguments(t *testing.T) {
	c := multi(nil, call(Set, "value"))
	out, _ := NewRegistry().Apply(nil, c)
	clear(c.Args[1])
	if string(out.Next) != "value" {
		t.Errorf("%q", out.Next)
	}
}

func TestAMultiIsBounded(t *testing.T) {
	registry := NewRegistry()
	gets := make([]Call, MaxCalls+1)
	for i := range gets {
		gets[i] = call(Get)
	}
	for _, c := range []struct {
		call Call
		want string
	}{
		{multi(nil, gets...), "more than 1000 calls"},
		{multi(nil, call("other.v1")), `call 0: unknown rmw function "other.v1"`},
		{multi(nil, call(Get), call(Set)), "call 1: rmw function set.v1 takes 1 arguments, not 0"},
		{multi(nil, multi(nil)), "call 0: it is one of several itself"},
		{multi(nil, call(Get, "x")), "call 0: get takes no arguments, not 1"},
		{Call{Function: Multi, Args: arguments("", "\x05get.v")}, "argument 1: cut short"},
		{Call{Function: Multi, Args: arguments("", "\x03get\xff\xff\xff\xff\x7f")}, "argument 1: cut short"},
		{Call{Function: Multi, Args: arguments("")}, "takes 2 arguments, not 1"},
	} {
		if err := registry.Check(c.call); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	large := Value(strings.Repeat("x", 1<<20))
	replies := multi(nil, gets[:3]...)
	replies.MaxValueBytes = 2 << 20
	if out, _ := registry.Apply(large, replies); out.Refused != "the replies have more than 2097152 bytes in all" {
		t.Errorf("refused: %.100q", out.Refused)
	}
	lengths := make([]Call, 100)
	for i := range lengths {
		lengths[i] = call(Append, "y")
	}
	work := multi(nil, lengths...)
	work.MaxValueBytes = 4 << 20
	out, _ := registry.Apply(large, work)
	if out.Refused != fmt.Sprintf("the calls read more than %d bytes in all", mostWork) {
		t.Errorf("refused: %.100q", out.Refused)
	}
}

func FuzzMulti(f *testing.F) {
	f.Add([]byte("x"), Guard(Value("x")), EncodeCalls([]Call{call(Add, "1"), call(Get)}))
	f.Add([]byte{}, []byte(nil), EncodeCalls([]Call{call(SetRange, "5", "x")}))
	f.Add([]byte{}, []byte(nil), []byte{2, 0xff})
	registry := NewRegistry()
	f.Fuzz(func(t *testing.T, current, guard, calls []byte) {
		c := Call{Function: Multi, Args: [][]byte{guard, calls}, MaxValueBytes: 1 << 10}
		checked := registry.Check(c)
		out, err := registry.Apply(current, c)
		if (checked == nil) != (err == nil) {
			t.Fatalf("%v, and then %v", checked, err)
		}
		if err != nil || out.Refused != "" {
			return
		}
		replies, done, err := DecodeReplies(out.Reply)
		decoded, _ := decodeCalls(calls)
		if err != nil || done && len(replies) != len(decoded) || !done && out.Changed {
			t.Fatalf("%+v: %d replies, %t, %v", out, len(replies), done, err)
		}
		if len(out.Next) > c.MaxValueBytes && out.Changed {
			t.Fatalf("%d bytes", len(out.Next))
		}
	})
}

func FuzzDecodeReplies(f *testing.F) {
	f.Add([]byte{0, 1, 1, 'x', 2, 1, 'y'})
	f.Fuzz(func(t *testing.T, b []byte) {
		replies, _, err := DecodeReplies(b)
		if err == nil && len(replies) > len(b) {
			t.Fatal(replies)
		}
	})
}
