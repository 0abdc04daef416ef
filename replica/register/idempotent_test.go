package register

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestIdempotentFunctionsByExample(t *testing.T) {
	for _, c := range []struct {
		function string
		args     [][]byte
		current  string
		next     string // compared if changed
		changed  bool
		refused  string
	}{
		{SetNewest, arguments("7", "x"), absent, "7 x", true, ""},
		{SetNewest, arguments("0", ""), absent, "0 ", true, ""},
		{SetNewest, arguments("8", "y"), "7 x", "8 y", true, ""},
		{SetNewest, arguments("10", "y"), "9 x", "10 y", true, ""}, // as numbers
		{SetNewest, arguments("7", "y"), "7 x", "", false, ""},
		{SetNewest, arguments("6", "y"), "7 x", "", false, ""},
		{SetNewest, arguments("18446744073709551615", "y"), "7 x", "18446744073709551615 y", true, ""},
		{SetNewest, arguments("18446744073709551616", "y"), "7 x", "", false, RefusedVersion},
		{SetNewest, arguments("07", "y"), absent, "", false, RefusedVersion},
		{SetNewest, arguments("-1", "y"), absent, "", false, RefusedVersion},
		{SetNewest, arguments("", "y"), absent, "", false, RefusedVersion},
		{SetNewest, arguments("9", "y"), "7", "", false, RefusedUnversed},
		{SetNewest, arguments("9", "y"), "", "", false, RefusedUnversed},
		{SetNewest, arguments("9", "y"), "07 x", "", false, RefusedUnversed},
		{SetNewest, arguments("9", "y"), "+a\n", "", false, RefusedUnversed},
		{SetNewest, arguments("9", strings.Repeat("y", 19)), absent, "", false, "limit is 20 bytes"},

		{AddMember, arguments("b"), absent, "+b\n", true, ""},
		{AddMember, arguments(""), absent, "+\n", true, ""},
		{AddMember, arguments("a"), "+b\n", "+a\n+b\n", true, ""},
		{AddMember, arguments("c"), "+a\n+b\n", "+a\n+b\n+c\n", true, ""},
		{AddMember, arguments("ab"), "+a\n+b\n", "+a\n+ab\n+b\n", true, ""},
		{AddMember, arguments("b"), "+a\n+b\n", "", false, ""},
		{AddMember, arguments("b\n"), "+a\n", "", false, RefusedLineBreak},
		{AddMember, arguments("b"), "", "", false, RefusedNoMembers},
		{AddMember, arguments("b"), "+a", "", false, RefusedNoMembers},
		{AddMember, arguments("b"), "7 x", "", false, RefusedNoMembers},
		{AddMember, arguments("b"), "+a\n7 x\n", "", false, RefusedNoMembers},
		{AddMember, arguments(strings.Repeat("y", 19)), absent, "", false, "limit is 20 bytes"},
	} {
		name := fmt.Sprintf("%s %q on %q", c.function, c.args, c.current)
		out, err := NewRegistry().Apply(valueOf(c.current),
			Call{Function: c.function, Args: c.args, MaxValueBytes: 20 + 10*len(c.next)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (out.Refused != "") != (c.refused != "") || !strings.Contains(out.Refused, c.refused) ||
			out.Changed != c.changed || out.Reply.Present() {
			t.Errorf("%s: refused with %q, changed %v, reply %q; want %q and %v", name, out.Refused, out.Changed,
				out.Reply, c.refused, c.changed)
		}
		if c.changed && !out.Next.Equal(valueOf(c.next)) {
			t.Errorf("%s: the value becomes %q, want %q", name, out.Next, c.next)
		}
	}
}

// Whatever idempotent calls come between, a call that is applied again changes nothing, and if it changed something it
// replies as it did. That is what a register needs that may apply it more than once; no other built-in function has it.
func TestIdempotentFunctions(t *testing.T) {
	r := NewRegistry()
	if names := r.IdempotentNames(); !slices.Equal(names, []string{AddMember, SetNewest}) {
		t.Errorf("%v may be applied more than once", names)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		return []string{"", "1", "2", "10", "18446744073709551615", "a", "b", "1 a", "+a", "+a\n", "\n"}[rng.IntN(11)]
	}
	draw := func(names []string) Call {
		c := Call{Function: names[rng.IntN(len(names))], MaxValueBytes: 10 + rng.IntN(2)*1000}
		for range r.functions[c.Function].Args {
			c.Args = append(c.Args, []byte(word()))
		}
		return c
	}
	apply := func(v Value, c Call) (Value, Outcome) {
		out, err := r.Apply(v, c)
		if err != nil {
			t.Fatal(err)
		}
		if out.Changed {
			return out.Next, out
		}
		return v, out
	}
	twice := func(c Call, others []string) bool {
		var v Value
		if rng.IntN(2) == 0 {
			v = Value(word() + word())
		}
		for range rng.IntN(3) {
			v, _ = apply(v, draw(others))
		}
		v, first := apply(v, c)
		for range rng.IntN(4) {
			v, _ = apply(v, draw(others))
		}
		_, again := apply(v, c)
		return !again.Changed && (!first.Changed || again.Refused == "" && again.Reply.Equal(first.Reply))
	}
	for range 50_000 {
		if c := draw(r.IdempotentNames()); !twice(c, r.IdempotentNames()) {
			t.Fatalf("%s(%q) is applied twice, and that can be seen", c.Function, c.Args)
		}
	}
	for _, name := range builtins() {
		found := false
		for range 3_000 {
			found = found || !twice(draw([]string{name.ID()}), append(r.IdempotentNames(), name.ID()))
		}
		if !found {
			t.Errorf("%s could be called idempotent", name.ID())
		}
	}
}
