package profile

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	if !slices.IsSorted(Names()) {
		t.Errorf("names are not sorted: %v", Names())
	}
	if _, err := Find("mars"); err == nil || !strings.Contains(err.Error(), "gryff, rss") {
		t.Errorf("an unknown profile's error must name the known ones, got: %v", err)
	}
}

func TestEveryPairHasARoundTrip(t *testing.T) {
	for _, p := range All() {
		for _, a := range p.Sites {
			for _, b := range p.Sites {
				ab, ok := p.RTT(a.Name, b.Code)
				ba, _ := p.RTT(strings.ToLower(b.Code), strings.ToUpper(a.Name))
				if !ok || ab != ba || ab <= 0 || (a == b) != (ab == p.Local) {
					t.Errorf("%s: %s-%s is %s, %t; back %s", p.Name, a.Name, b.Name, ab, ok, ba)
				}
			}
		}
		if _, ok := p.RTT("california", "mars"); ok {
			t.Errorf("%s knows mars", p.Name)
		}
	}
}

// The papers' figures, read off again.
func TestFigures(t *testing.T) {
	tests := []struct {
		profile, a, b string
		ms            int
	}{
		{"gryff", "CA", "VA", 72}, {"gryff", "CA", "IR", 151}, {"gryff", "CA", "OR", 59}, {"gryff", "CA", "JP", 113},
		{"gryff", "VA", "IR", 88}, {"gryff", "VA", "OR", 93}, {"gryff", "VA", "JP", 162},
		{"gryff", "IR", "OR", 145}, {"gryff", "IR", "JP", 220}, {"gryff", "OR", "JP", 121},
		{"rss", "CA", "VA", 62}, {"rss", "CA", "IR", 136}, {"rss", "VA", "IR", 68},
	}
	for _, tt := range tests {
		p, err := Find(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := p.RTT(tt.a, tt.b); got != time.Duration(tt.ms)*time.Millisecond {
			t.Errorf("%s %s-%s: %s, want %d ms", tt.profile, tt.a, tt.b, got, tt.ms)
		}
	}
}
