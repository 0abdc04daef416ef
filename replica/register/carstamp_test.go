package register

import (
	"cmp"
	"math"
	"testing"
	"testing/quick"
)

func TestWriterKeepsItsParts(t *testing.T) {
	for _, c := range []struct {
		member, incarnation, boot uint32
		text                      string
	}{
		{0, 0, 0, "0.0.0"},
		{1, 2, 3, "1.2.3"},
		{65535, 65535, math.MaxUint32, "65535.65535.4294967295"},
	} {
		w := NewWriter(c.member, c.incarnation, c.boot)
		if w.Member() != c.member || w.Incarnation() != c.incarnation || w.Boot() != c.boot {
			t.Errorf("writer %v came back as %d, %d, %d", c, w.Member(), w.Incarnation(), w.Boot())
		}
		if w.String() != c.text {
			t.Errorf("writer %v is spelled %s, want %s", c, w, c.text)
		}
	}
}

func TestWriterOrdersByMemberThenIncarnationThenBoot(t *testing.T) {
	ascending := []Writer{NewWriter(1, 1, 1), NewWriter(1, 1, 2), NewWriter(1, 2, 0), NewWriter(2, 0, 0)}
	for i := 1; i < len(ascending); i++ {
		if ascending[i-1] >= ascending[i] {
			t.Errorf("%s must come before %s", ascending[i-1], ascending[i])
		}
	}
}

func TestCarstampOrder(t *testing.T) {
	ascending := []Carstamp{
		{},
		{RMWs: 1}, // an rmw on the initial value
		{Timestamp: 1, Writer: NewWriter(1, 1, 1)},
		{Timestamp: 1, Writer: NewWriter(1, 1, 1), RMWs: 1},
		{Timestamp: 1, Writer: NewWriter(1, 1, 1), RMWs: math.MaxUint64},
		{Timestamp: 1, Writer: NewWriter(1, 1, 2)}, // the next boot
		{Timestamp: 1, Writer: NewWriter(2, 1, 1)},
		{Timestamp: 2},
		{Timestamp: math.MaxUint64, Writer: math.MaxUint64, RMWs: math.MaxUint64},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := a.Compare(b), cmp.Compare(i, j); got != want {
				t.Errorf("%s compared to %s is %d, want %d", a, b, got, want)
			}
			if a.Less(b) != (i < j) {
				t.Errorf("%s less than %s is %v", a, b, a.Less(b))
			}
		}
		if a.IsZero() != (i == 0) {
			t.Errorf("%s is zero: %v", a, a.IsZero())
		}
	}
}

// Nothing that is not an rmw on c comes between c and its rmw.
func TestNoWriteComesBetweenARMWAndItsBase(t *testing.T) {
	property := func(c, other Carstamp) bool {
		if c.RMWs == math.MaxUint64 {
			return true
		}
		between := c.Less(other) && other.Less(c.Next())
		return c.Less(c.Next()) && !between
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}

func TestCarstampString(t *testing.T) {
	if got := (Carstamp{Timestamp: 7, Writer: NewWriter(3, 1, 4), RMWs: 2}).String(); got != "7/3.1.4/2" {
		t.Errorf("spelled %s", got)
	}
}
