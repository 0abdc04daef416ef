package main

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/node"
)

func TestWho(t *testing.T) {
	for self, want := range map[string]node.Who{
		"": {Site: "ca"}, "7": {Self: 7, Site: "ca"}, "65535": {Self: 65535, Site: "ca"},
	} {
		if got, err := newWho(self, "ca"); got != want || err != nil {
			t.Errorf("--self %q: %+v, %v", self, got, err)
		}
	}
	for _, self := range []string{"0", "-1", "65536", "ca"} {
		if _, err := newWho(self, "ca"); err == nil || !strings.Contains(err.Error(), "--self "+self) {
			t.Errorf("--self %s: %v", self, err)
		}
	}
}
