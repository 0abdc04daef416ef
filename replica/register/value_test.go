package register

import (
	"errors"
	"strings"
	"testing"
)

func TestAbsentIsNotEmpty(t *testing.T) {
	for _, c := range []struct {
		a, b  Value
		equal bool
	}{
		{nil, nil, true},
		{nil, Value{}, false},
		{Value{}, nil, false},
		{Value{}, Value(""), true},
		{Value("x"), Value("x"), true},
		{Value("x"), Value("y"), false},
		{Value("x"), Value("xx"), false},
	} {
		if c.a.Equal(c.b) != c.equal {
			t.Errorf("%#v equal to %#v: %v", c.a, c.b, !c.equal)
		}
	}
	if Value(nil).Present() || !(Value{}).Present() {
		t.Error("only a nil value is absent")
	}
}

func TestLimits(t *testing.T) {
	l := Limits{KeyBytes: 3, ValueBytes: 5}
	for _, c := range []struct {
		name     string
		err      error
		tooLarge bool
		says     string // empty: no error
	}{
		{"empty key", l.CheckKey(""), false, "empty"},
		{"longest key", l.CheckKey("abc"), false, ""},
		{"longer key", l.CheckKey("abcd"), true, "limit is 3 bytes"},
		{"empty value", l.CheckValue(0), false, ""},
		{"largest value", l.CheckValue(5), false, ""},
		{"larger value", l.CheckValue(6), true, "limit is 5 bytes"},
	} {
		if (c.err != nil) != (c.says != "") {
			t.Errorf("%s: %v", c.name, c.err)
			continue
		}
		if c.err != nil && !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: the error does not say %q: %v", c.name, c.says, c.err)
		}
		if errors.Is(c.err, ErrTooLarge) != c.tooLarge {
			t.Errorf("%s: too large is %v", c.name, !c.tooLarge)
		}
	}
	d := DefaultLimits()
	if d.CheckValue(1<<20) != nil || d.CheckValue(1<<20+1) == nil {
		t.Error("by default the largest value has 1 MiB")
	}
}

func TestKindsAndStatusesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for k := Read; k <= RMW; k++ {
		seen[k.String()] = true
	}
	for s := OK; s <= Unknown; s++ {
		seen[s.String()] = true
	}
	// "unknown" is both what became of an operation and the name of no kind.
	if len(seen) != 9 || seen["none"] {
		t.Errorf("names are missing or shared: %v", seen)
	}
	if Kind(0).String() != "unknown" || Status(0).String() != "none" {
		t.Errorf("zero kind %s, zero status %s", Kind(0), Status(0))
	}
}
