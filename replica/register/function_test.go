package register

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// absent stands for a value that is not there.
const absent = "\x00absent"

func valueOf(s string) Value {
	if s == absent {
		return nil
	}
	return Value(s)
}

func arguments(args ...string) [][]byte {
	var bytes [][]byte
	for _, a := range args {
		bytes = append(bytes, []byte(a))
	}
	return bytes
}

func TestBuiltins(t *testing.T) {
	const limit = 20
	low, high := strconv.FormatInt(math.MinInt64, 10), strconv.FormatInt(math.MaxInt64, 10)
	long := strings.Repeat("x", limit)
	for _, c := range []struct {
		function string
		args     [][]byte
		current  string
		next     string // compared if changed
		changed  bool
		reply    string
		refused  string
	}{
		{CompareAndSwap, arguments("a", "b"), "a", "b", true, "1", ""},
		{CompareAndSwap, arguments("a", "b"), "c", "", false, "0", ""},
		{CompareAndSwap, arguments("", "b"), "", "b", true, "1", ""},
		{CompareAndSwap, arguments("", "b"), absent, "", false, "0", ""}, // absent is not empty
		{CompareAndSwap, arguments("a", ""), "a", "", true, "1", ""},
		{CompareAndSwap, arguments("a", long+"x"), "a", "", false, "", "limit is 20 bytes"},
		{CompareAndSwap, arguments("b", long+"x"), "a", "", false, "0", ""}, // what is not stored may be large

		{Add, arguments("5"), absent, "5", true, "5", ""},
		{Add, arguments("5"), "-7", "-2", true, "-2", ""},
		{Add, arguments("+5"), "0", "5", true, "5", ""},
		{Add, arguments("1"), high, "", false, "", RefusedOverflow},
		{Add, arguments("-1"), high, "9223372036854775806", true, "9223372036854775806", ""},
		{Add, arguments("-1"), low, "", false, "", RefusedOverflow},
		{Add, arguments(low), "-1", "", false, "", RefusedOverflow},
		{Add, arguments(low), "0", low, true, low, ""},
		{Add, arguments(high), "0", high, true, high, ""},
		{Add, arguments("9223372036854775808"), "0", "", false, "", RefusedNotInteger},
		{Add, arguments("1.5"), "0", "", false, "", RefusedNotInteger},
		{Add, arguments(""), "0", "", false, "", RefusedNotInteger},
		{Add, arguments("1"), "", "", false, "", RefusedNotInteger}, // empty is no zero
		{Add, arguments("1"), "one", "", false, "", RefusedNotInteger},
		{Add, arguments("1"), " 1", "", false, "", RefusedNotInteger},
		{Add, arguments("1"), "007", "", false, "", RefusedNotInteger},
		{Add, arguments("1"), "+1", "", false, "", RefusedNotInteger},
		{Add, arguments("1"), "1.0", "", false, "", RefusedNotInteger},

		{AddFloat, arguments("1.5"), absent, "1.5", true, "1.5", ""},
		{AddFloat, arguments("-0.5"), "3", "2.5", true, "2.5", ""},
		{AddFloat, arguments("5e3"), "1", "5001", true, "5001", ""},
		{AddFloat, arguments("x"), "1", "", false, "", RefusedNotFloat},
		{AddFloat, arguments("nan"), "1", "", false, "", RefusedNotFloat},
		{AddFloat, arguments("1"), "NaN", "", false, "", RefusedNotFloat},
		{AddFloat, arguments("1"), "", "", false, "", RefusedNotFloat},
		{AddFloat, arguments("1e400"), "1", "", false, "", RefusedNotFloat},
		{AddFloat, arguments("inf"), "1", "", false, "", RefusedNaN},
		{AddFloat, arguments("-inf"), "inf", "", false, "", RefusedNaN},
		{AddFloat, arguments("1.7e308"), "1.7e308", "", false, "", RefusedNaN},
		{AddFloat, arguments("1e25"), absent, "", false, "", "limit is 20 bytes"}, // spelled out, 26 digits

		{Append, arguments("b"), absent, "b", true, "1", ""},
		{Append, arguments("b"), "a", "ab", true, "2", ""},
		{Append, arguments(""), absent, "", true, "0", ""}, // now empty, no longer absent
		{Append, arguments(""), "", "", true, "0", ""},
		{Append, arguments("x"), long[1:], long, true, "20", ""},
		{Append, arguments("x"), long, "", false, "", "value of 21 bytes is too large: the limit is 20 bytes"},

		{Set, arguments("n"), "o", "n", true, absent, ""},
		{Set, arguments(""), absent, "", true, absent, ""},
		{SetIfAbsent, arguments("n"), absent, "n", true, "1", ""},
		{SetIfAbsent, arguments("n"), "", "", false, "0", ""},
		{SetIfPresent, arguments("n"), absent, "", false, "0", ""},
		{SetIfPresent, arguments("n"), "", "n", true, "1", ""},

		{GetAndSet, arguments("n"), "o", "n", true, "o", ""},
		{GetAndSet, arguments("n"), absent, "n", true, absent, ""},
		{GetAndSet, arguments(""), "o", "", true, "o", ""},
		{GetAndSetIfAbsent, arguments("n"), "o", "", false, "o", ""},
		{GetAndSetIfAbsent, arguments("n"), absent, "n", true, absent, ""},
		{GetAndSetPresent, arguments("n"), "o", "n", true, "o", ""},
		{GetAndSetPresent, arguments("n"), absent, "", false, absent, ""},

		{GetAndDelete, nil, "o", absent, true, "o", ""},
		{GetAndDelete, nil, "", absent, true, "", ""},
		{GetAndDelete, nil, absent, "", false, absent, ""},
		{Delete, nil, "o", absent, true, "1", ""},
		{Delete, nil, absent, "", false, "0", ""},

		{SetRange, arguments("1", "XY"), "abcd", "aXYd", true, "4", ""},
		{SetRange, arguments("3", "XY"), "abcd", "abcXY", true, "5", ""},
		{SetRange, arguments("2", "X"), absent, "\x00\x00X", true, "3", ""},
		{SetRange, arguments("5", ""), absent, "", false, "0", ""},
		{SetRange, arguments("5", ""), "abc", "", false, "3", ""},
		{SetRange, arguments("19", "X"), absent, strings.Repeat("\x00", 19) + "X", true, "20", ""},
		{SetRange, arguments("20", "X"), absent, "", false, "", "value of 21 bytes is too large"},
		{SetRange, arguments("-1", "X"), "abc", "", false, "", RefusedOffset},
		{SetRange, arguments("536870913", "X"), "abc", "", false, "", RefusedOffset},
		{SetRange, arguments("9223372036854775807", "X"), "abc", "", false, "", RefusedOffset},
		{SetRange, arguments("one", "X"), "abc", "", false, "", RefusedOffset},
	} {
		name := c.function + " " +
			strings.Join(strings.Fields(string(bytes.Join(c.args, []byte(" ")))), " ") + " on " + c.current
		out, err := NewRegistry().Apply(valueOf(c.current),
			Call{Function: c.function, Args: c.args, MaxValueBytes: limit})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.refused != "" {
			if !strings.Contains(out.Refused, c.refused) || out.Changed {
				t.Errorf("%s: refused with %q, changed %v; want %q", name, out.Refused, out.Changed, c.refused)
			}
			continue
		}
		if out.Refused != "" || out.Changed != c.changed || !out.Reply.Equal(valueOf(c.reply)) {
			t.Errorf("%s: refused %q, changed %v, reply %q; want %v, %q", name, out.Refused, out.Changed,
				out.Reply, c.changed, c.reply)
		}
		if c.changed && !out.Next.Equal(valueOf(c.next)) {
			t.Errorf("%s: the value becomes %q (present %v), want %q", name, out.Next, out.Next.Present(), c.next)
		}
	}
}

func TestRegistry(t *testing.T) {
	r := NewRegistry()
	names := r.Names()
	if !slices.IsSorted(names) || len(names) != 16 || !slices.Contains(names, CompareAndSwap) {
		t.Errorf("the built-in functions are %v", names)
	}
	double := Function{Name: "double", Version: 2, Apply: func(v Value, _ [][]byte, _ int) Outcome {
		return Outcome{Next: slices.Concat(v, v), Changed: true}
	}}
	if err := r.Add(double); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Apply(Value("ab"), Call{Function: "double.v2"}); err != nil || string(out.Next) != "abab" {
		t.Errorf("an added function made %q, %v", out.Next, err)
	}
	if out, err := r.Apply(Value("ab"), Call{Function: "double.v2", MaxValueBytes: 3}); err != nil ||
		out.Refused == "" {
		t.Errorf("a result above the call's limit is %+v, %v", out, err)
	}
	if slices.Contains(NewRegistry().Names(), "double.v2") {
		t.Error("a function that is added to one registry is in another")
	}

	for name, bad := range map[string]Function{
		"again":      double,
		"no name":    {Version: 1, Apply: double.Apply},
		"no version": {Name: "f", Apply: double.Apply},
		"no apply":   {Name: "f", Version: 1},
		"built in":   {Name: "add", Version: 1, Apply: double.Apply},
	} {
		if r.Add(bad) == nil {
			t.Errorf("%s: added", name)
		}
	}
	for name, c := range map[string]struct {
		call Call
		says string
	}{
		"unknown":   {Call{Function: "frobnicate.v1"}, CompareAndSwap},
		"unversion": {Call{Function: "add"}, Add},
		"too few":   {Call{Function: Add}, "takes 1 arguments, not 0"},
		"too many":  {Call{Function: Delete, Args: arguments("x")}, "takes 0 arguments, not 1"},
	} {
		if err := r.Check(c.call); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Check says %v, want %q in it", name, err, c.says)
		}
		if out, err := r.Apply(nil, c.call); err == nil || out.Refused == "" || out.Changed {
			t.Errorf("%s: applied, with %+v", name, out)
		}
	}
}

// FuzzApply runs every built-in function on anything: twice alike, without changing what it was given, and
// never to a value above the limit.
func FuzzApply(f *testing.F) {
	f.Add(true, []byte("12"), []byte("5"), []byte("x"), uint16(100))
	f.Add(false, []byte(nil), []byte("-9223372036854775808"), []byte("1e308"), uint16(3))
	f.Add(true, []byte(""), []byte("0x1p-2"), []byte(""), uint16(0))
	f.Fuzz(func(t *testing.T, present bool, current, first, second []byte, limit uint16) {
		r := NewRegistry()
		var v Value
		if present {
			v = append(Value{}, current...)
		}
		for _, name := range r.Names() {
			args := [][]byte{slices.Clone(first), slices.Clone(second)}[:r.functions[name].Args]
			call := Call{Function: name, Args: args, MaxValueBytes: int(limit) + 1}
			out, err := r.Apply(v, call)
			if err != nil && name != Multi {
				t.Fatalf("%s: %v", name, err)
			}
			again, _ := r.Apply(v, call)
			if out.Changed != again.Changed || out.Refused != again.Refused || !out.Next.Equal(again.Next) ||
				!out.Reply.Equal(again.Reply) {
				t.Errorf("%s made %+v, then %+v", name, out, again)
			}
			if out.Refused != "" && out.Changed {
				t.Errorf("%s refused, with %q, and changed", name, out.Refused)
			}
			if out.Changed && len(out.Next) > call.MaxValueBytes {
				t.Errorf("%s made %d bytes, the limit is %d", name, len(out.Next), call.MaxValueBytes)
			}
			if v.Present() != present || !bytes.Equal(v, current) && present ||
				len(args) > 0 && !bytes.Equal(args[0], first) || len(args) > 1 && !bytes.Equal(args[1], second) {
				t.Errorf("%s changed what it was given", name)
			}
		}
	})
}
