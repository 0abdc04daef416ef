package client

import (
	"errors"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

func TestSessionNumbers(t *testing.T) {
	s := &Session{id: 7, next: 1}
	a, b, c := s.begin(), s.begin(), s.begin()
	s.end(b.Number)
	d := s.begin()
	s.end(a.Number)
	e := s.begin()
	s.end(c.Number)
	s.end(d.Number)
	s.end(e.Number)
	f := s.begin()
	for i, test := range []struct {
		id            register.ID
		number, first uint64
	}{{a, 1, 1}, {b, 2, 1}, {c, 3, 1}, {d, 4, 1}, {e, 5, 3}, {f, 6, 6}} {
		if test.id.Session != 7 || test.id.Number != test.number || test.id.FirstIncomplete != test.first {
			t.Errorf("id %d is %+v", i, test.id)
		}
	}
}

func TestPreference(t *testing.T) {
	down := errors.New("down")
	named := func(name string, ping time.Duration, trouble error) *endpoint {
		return &endpoint{Endpoint: Endpoint{Address: name}, ping: ping, trouble: trouble}
	}
	endpoints := []*endpoint{
		named("never", 0, down), named("far", 9, nil), named("gone", 1, down), named("near", 2, nil),
	}
	for _, test := range []struct {
		inOrder bool
		want    string
	}{{false, "near far gone never "}, {true, "far near never gone "}} {
		got := ""
		for _, e := range byPreference(endpoints, test.inOrder) {
			got += e.Address + " "
		}
		if got != test.want {
			t.Errorf("in order %t: %s, want %s", test.inOrder, got, test.want)
		}
	}
}
