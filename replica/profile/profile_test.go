package profile

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNamedProfiles(t *testing.T) {
	p, err := Find("gryff")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Pair{{"VA", "CA", 72 * ms}, {"IR", "JP", 220 * ms}, {"CA", "CA", Local}} {
		if got := p.RTT[p.Index(want.A)][p.Index(want.B)]; got != want.RTT {
			t.Errorf("%s-%s: %v, want %v", want.A, want.B, got, want.RTT)
		}
	}
	if got := p.Largest(); got != 220*ms {
		t.Errorf("largest %v", got)
	}
	// From Japan: California 113, Oregon 121, Virginia 162, Ireland 220.
	if got := p.Nearest(4); !slices.Equal(got, []int{0, 3, 1, 2}) {
		t.Errorf("nearest of JP: %v", got)
	}
	three, err := p.First(3)
	if err != nil || !slices.Equal(three.Sites, []string{"CA", "VA", "IR"}) || three.Largest() != 151*ms {
		t.Errorf("first three: %v, %v", three, err)
	}
	if _, err := Find("mars"); err == nil || !strings.Contains(err.Error(), "gryff, rss") {
		t.Errorf("unknown profile: %v", err)
	}
	if _, err := p.First(6); err == nil {
		t.Error("six of five sites")
	}
}

func TestParse(t *testing.T) {
	p, err := Parse("a-b=10ms, b-c=0.5s,c-a=20ms")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Sites, []string{"a", "b", "c"}) || p.RTT[2][1] != 500*time.Millisecond {
		t.Errorf("%+v", p)
	}
	for list, want := range map[string]string{
		"a-b":                  "form SITE-SITE=DURATION",
		"ab=3ms":               "form SITE-SITE=DURATION",
		"a-b=fast":             "no duration",
		"a-b=-1ms":             "must be positive",
		"a-b=0s":               "must be positive",
		"a-a=1ms":              "two different sites",
		"a-b=1ms,b-a=2ms":      "given twice",
		"a-b=1ms,b-c=1ms":      "a-c is missing",
		"":                     "form SITE-SITE=DURATION",
		"a-b=1ms,c-d=1ms,-=ms": "form SITE-SITE=DURATION",
	} {
		if _, err := Parse(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a-b=72ms,a-c=151ms,b-c=88ms")
	f.Fuzz(func(t *testing.T, list string) {
		p, err := Parse(list)
		if err != nil {
			return
		}
		for i := range p.Sites {
			for j := range p.Sites {
				if p.RTT[i][j] != p.RTT[j][i] || p.RTT[i][j] <= 0 {
					t.Fatalf("%q: round trip %d-%d is %v and %v", list, i, j, p.RTT[i][j], p.RTT[j][i])
				}
			}
		}
	})
}
