package process

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	var last tail
	for _, text := range []string{strings.Repeat("x", tailBytes), "\ngeoregister: disk", " full\n"} {
		if n, err := last.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := last.last(); got != "georegister: disk full" {
		t.Errorf("last line %q", got)
	}
}
