package register

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func dependency(key string, timestamp uint64, value string) Dependency {
	return Dependency{
		Key: key, Versioned: Versioned{Carstamp{Timestamp: timestamp, Writer: NewWriter(1, 1, 1)}, Value(value)},
	}
}

// reads has a past learn of a regular read that a quorum may not hold.
func reads(p *Past, d Dependency) {
	op := Operation{Kind: Read, Key: d.Key}
	p.Attach(&op)
	p.Learn(&op, Result{Status: OK, Value: d.Value, Carstamp: d.Carstamp, Depends: true})
}

func keys(p *Past) string {
	var all []string
	for _, d := range p.dependencies {
		all = append(all, fmt.Sprint(d.Key, d.Carstamp.Timestamp))
	}
	return strings.Join(all, " ")
}

func TestAPastGoesAlongUntilItIsHeld(t *testing.T) {
	for _, c := range []struct {
		name string
		end  Result
		want string
	}{
		{"answered", Result{Status: OK}, ""},
		{"an rmw that refused", Result{Status: Failed}, ""},
		{"no quorum", Result{Status: Unavailable}, "x3"},
		{"the outcome is unknown", Result{Status: Unknown}, "x3"},
		{"refused", Result{Status: Invalid}, "x3"},
		{"another one is read", Result{Status: OK, Depends: true, Carstamp: Carstamp{Timestamp: 9}}, "y9"},
	} {
		var p Past
		reads(&p, dependency("x", 3, "v"))
		next := Operation{Kind: Read, Key: "y"}
		p.Attach(&next)
		if !next.Regular || len(next.After) != 1 {
			t.Errorf("%s: the next operation carries %v, regular: %v", c.name, next.After, next.Regular)
		}
		if p.Learn(&next, c.end); keys(&p) != c.want {
			t.Errorf("%s: the past is %q, want %q", c.name, keys(&p), c.want)
		}
	}
	stale, write := Operation{Kind: Read, Stale: true}, Operation{Kind: Write}
	var p Past
	p.Attach(&stale)
	p.Attach(&write)
	if stale.Regular || write.Regular {
		t.Error("only a read that may not be stale is regular")
	}
}

// Operations of one session overlap: what an earlier one carried says nothing of what another one read meanwhile.
func TestAPastKeepsWhatWasNewerThanWhatWasCarried(t *testing.T) {
	var p Past
	reads(&p, dependency("x", 3, "v"))
	carries := Operation{Kind: Write, Key: "y"}
	p.Attach(&carries)
	reads(&p, dependency("x", 5, "w"))
	old := Operation{Kind: Read, Key: "x"}
	p.Learn(&old, Result{Status: OK, Depends: true, Carstamp: Carstamp{Timestamp: 4}})
	if p.Learn(&carries, Result{Status: OK}); keys(&p) != "x5" {
		t.Errorf("the past is %q, want x5", keys(&p))
	}
}

func TestAFullPastIsFencedInParts(t *testing.T) {
	var p, other Past
	for i := range MaxDependencies {
		p.add(dependency(fmt.Sprintf("a%02d-", i), 1, "v"))
		other.add(dependency(fmt.Sprintf("b%02d-", i), 1, "v"))
	}
	if p.Full() {
		t.Errorf("%d dependencies are full", p.Len())
	}
	if p.Join(&other); !p.Full() || p.Len() != 2*MaxDependencies {
		t.Fatalf("%d dependencies, full: %v", p.Len(), p.Full())
	}
	fence := p.Fence()
	if p.Learn(&fence, Result{Status: OK}); fence.Kind != Fence || p.Full() || p.Len() != MaxDependencies {
		t.Errorf("%v of %d left %d", fence.Kind, len(fence.After), p.Len())
	}
}

func TestAPastIsWrittenAndRead(t *testing.T) {
	var p Past
	p.add(dependency("b", 7, "value"))
	p.add(dependency("a", 1, ""))
	p.add(Dependency{Key: "c", Versioned: Versioned{Carstamp: Carstamp{Timestamp: 2, RMWs: 9}}, Proof: []byte("proof")})
	b := p.Encode()
	got, err := DecodePast(b, DefaultLimits())
	if err != nil || !bytes.Equal(got.Encode(), b) || got.dependencies[0].Value == nil ||
		got.dependencies[2].Value != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b {
		if _, err := DecodePast(b[:i], DefaultLimits()); !errors.Is(err, ErrPast) {
			t.Errorf("cut off after %d bytes: %v", i, err)
		}
	}
	for want, bad := range map[string]Past{
		"not in order":    {[]Dependency{dependency("b", 1, ""), dependency("a", 1, "")}},
		"keys are not":    {[]Dependency{dependency("a", 1, ""), dependency("a", 2, "")}},
		"key is empty":    {[]Dependency{dependency("", 1, "")}},
		"too large":       {[]Dependency{dependency("a", 1, strings.Repeat("v", MaxDependencyBytes+1))}},
		"has no carstamp": {[]Dependency{{Key: "a"}}},
		"no write has":    {[]Dependency{dependency("a", 1<<60, "")}},
	} {
		if _, err := DecodePast(bad.Encode(), DefaultLimits()); !errors.Is(err, ErrPast) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := DecodePast(append(b, 0), DefaultLimits()); !errors.Is(err, ErrPast) {
		t.Errorf("a byte too many: %v", err)
	}
}

func FuzzDecodePast(f *testing.F) {
	var p Past
	f.Add(p.Encode())
	p.add(dependency("key", 7, "value"))
	p.add(dependency("key 2", 1, ""))
	f.Add(p.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := DecodePast(b, DefaultLimits()); err == nil && !bytes.Equal(got.Encode(), b) {
			t.Errorf("%x came back as %x", b, got.Encode())
		}
	})
}
