package console

import (
	"bytes"
	"context"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/georegister/georegister/dev"
)

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	width, height := 20, 12
	s := &screen{out: &out, size: func() (int, int) { return width, height }}
	written := func(f func()) string {
		out.Reset()
		f()
		return out.String()
	}
	lines := []string{"SITE", "a line that is too long for the terminal"}
	first := written(func() { s.show(lines) })
	if !strings.Contains(first, "\x1b[4;12r") || !strings.Contains(first, "\x1b[2;1H\x1b[2Ka line that is too l\x1b") {
		t.Errorf("first table: %q", first)
	}
	again := written(func() { s.show(lines) })
	if strings.Contains(again, clearScreen) || !strings.HasPrefix(again, saveCursor) ||
		!strings.HasSuffix(again, restoreCursor) {
		t.Errorf("second table disturbs what scrolls: %q", again)
	}
	if grown := written(func() { s.show(append(lines, "b crashed")) }); strings.Contains(grown, clearScreen) ||
		!strings.HasPrefix(grown, saveCursor+"\x1b[5;12r") || !strings.HasSuffix(grown, restoreCursor) {
		t.Errorf("a longer table clears what scrolls: %q", grown)
	}
	shrunk := written(func() { s.show(lines) })
	if !strings.HasPrefix(shrunk, saveCursor+"\x1b[4;12r\x1b[4;1H"+clearLine) {
		t.Errorf("a shorter table leaves its last line: %q", shrunk)
	}
	height = 30
	if resized := written(func() { s.show(lines) }); !strings.Contains(resized, "\x1b[4;30r") {
		t.Errorf("after a resize: %q", resized)
	}
	height = 6
	small := written(func() { s.show(lines) })
	if !strings.Contains(small, wholeRegion) || strings.Contains(small, "SITE") {
		t.Errorf("too small: %q", small)
	}
	if end := written(s.close); end != "" {
		t.Errorf("there was no table to leave: %q", end)
	}
	plain := &screen{out: &out}
	if got := written(func() { plain.show(lines); plain.close() }); got != "" {
		t.Errorf("without a terminal: %q", got)
	}
}

func TestNothingIsClearedThatMustBeRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that the session ends by itself
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	s := &screen{out: &out, size: func() (int, int) { return 80, 24 }}
	cluster, options := start(t, "{protocol: Gryff, sites: [{name: a, members: 2}, {name: b}], "+
		"wan: {links: [{between: [a, b], rtt: 3ms, loss: 1%}]}}")
	r := running{
		Session: Session{In: in, Options: options}, cluster: cluster, console: New(cluster), screen: s, quit: cancel,
	}
	r.introduce(ctx)
	r.interact(ctx)
	_, after, found := strings.Cut(out.String(), clearScreen)
	if !found || strings.Contains(after, clearScreen) {
		t.Errorf("cleared not once: %q", out.String())
	}
	for _, read := range []string{"`help` lists the commands", "nothing is lost here"} {
		if strings.Count(after, read) != 1 {
			t.Errorf("after the first table, %q is not there once: %q", read, out.String())
		}
	}
}

func TestAddressesFitATerminal(t *testing.T) {
	text := addresses([]dev.Observation{
		{Label: "ca", Redis: "127.0.0.1:16000", GRPC: "127.0.0.1:20000", HTTP: "127.0.0.1:20001"},
		{Label: "ir-1", Redis: "127.0.0.1:16001", GRPC: "127.0.0.1:20002", HTTP: "127.0.0.1:20003"},
	})
	lines := strings.Split(text, "\n")
	if lines[0] != "  ca    redis-cli -p 16000  gRPC 127.0.0.1:20000  http://127.0.0.1:20001/metrics" ||
		len(lines[1]) > 80 {
		t.Errorf("got\n%s", text)
	}
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		sites       []string
		faults      int
		partitioned bool
		want        []fault
	}{
		{[]string{"a", "b", "c"}, 1, false, []fault{{0.25, "kill c"}, {0.6, "restart c"}, {0.75, "replace a"}}},
		{[]string{"a", "b", "c", "d", "e"}, 2, false,
			[]fault{{0.25, "kill e"}, {0.4, "wipe b"}, {0.6, "restart e"}, {0.75, "replace a"}}},
		{[]string{"a", "b", "c", "d", "e"}, 2, true,
			[]fault{{0.25, "kill e"}, {0.4, "wipe b"}, {0.6, "restart e"}, {0.75, "replace b"}}},
	} {
		if got := plan(tt.sites, tt.faults, tt.partitioned); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.sites, got, tt.want)
		}
	}
}
