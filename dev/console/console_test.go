package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev"
)

const threeSites = "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}]}"

func manifest(t *testing.T, spec string) *v1alpha1.GeoRegisterCluster {
	t.Helper()
	m, err := v1alpha1.Decode(
		[]byte("apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: demo}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// start starts a cluster whose processes wait to be killed, and answer nothing.
func start(t *testing.T, spec string) (*dev.Cluster, dev.Options) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "waits")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexec cat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := dev.Options{Manifest: manifest(t, spec), Data: t.TempDir(), Binary: binary}
	c, err := dev.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, o
}

func TestConsoleRefusals(t *testing.T) {
	cluster, _ := start(t, threeSites)
	console := New(cluster)
	for line, want := range map[string]string{
		"fly":           `unknown command "fly"; ` + "`help` lists the commands",
		"kill":          "use: kill SITE",
		"partition a":   "use: partition SITE SITE",
		"heal now":      "use: heal",
		"kill x":        `no site "x"`,
		"add":           "use: add SITE...",
		"remove":        "use: remove SITE...",
		"replace a b c": "use: replace SITE [with SITE]",
		"remove x":      `no site "x"`,
		"abandon":       "no change of members is going on",
	} {
		if _, err := console.Execute(t.Context(), line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if text, err := console.Execute(t.Context(), "  "); text != "" || err != nil {
		t.Errorf("a blank line: %q, %v", text, err)
	}
	if _, err := console.Execute(t.Context(), "quit"); !errors.Is(err, ErrQuit) {
		t.Errorf("quit: %v", err)
	}
	text, err := console.Execute(t.Context(), "help")
	if err != nil {
		t.Error(err)
	}
	for _, a := range Actions() {
		if !strings.Contains(text, a.Name+" ") {
			t.Errorf("help lacks %s", a.Name)
		}
	}
}

func TestControl(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where the list of running clusters is, on Linux
	t.Setenv("HOME", t.TempDir())           // and on macOS
	send := func(data, line string) (string, error) {
		var text strings.Builder
		err := Send(t.Context(), data, line, &text)
		return text.String(), err
	}
	if _, err := send("", "status"); err == nil || !strings.Contains(err.Error(), "no cluster runs") {
		t.Errorf("no cluster runs, yet: %v", err)
	}
	cluster, o := start(t, threeSites)
	quit, said := context.WithCancel(t.Context())
	c, err := serveControl(o.Data, New(cluster), said)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{o.Data, ""} {
		if text, err := send(data, "status"); err != nil || !strings.HasPrefix(text, "SITE") {
			t.Errorf("status with --data %q: %q, %v", data, text, err)
		}
	}
	if _, err := send(o.Data, "kill x"); err == nil || !strings.Contains(err.Error(), `no site "x"`) {
		t.Errorf("an error of the console: %v", err)
	}
	record, err := readControl(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post("http://"+record.Address, "text/plain", strings.NewReader("quit"))
	if err != nil {
		t.Fatal(err)
	}
	if _ = response.Body.Close(); response.StatusCode != http.StatusForbidden || quit.Err() != nil {
		t.Errorf("a command without the token: %s", response.Status)
	}
	if info, err := os.Stat(filepath.Join(o.Data, controlFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token can be read by others: %v, %v", info.Mode(), err)
	}
	if _, err := send("", "quit"); err != nil || quit.Err() == nil {
		t.Errorf("quit: %v", err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if _, err := send(o.Data, "status"); err == nil || !strings.Contains(err.Error(), "no cluster runs in") {
		t.Errorf("after the end: %v", err)
	}
}

func TestSeveralClusters(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	cluster, o := start(t, threeSites)
	c, err := serveControl(o.Data, New(cluster), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	registry, err := registryDirectory()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"1": o.Data, "2": t.TempDir()} { // a second one, and one that was killed
		if err := os.WriteFile(filepath.Join(registry, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Send(t.Context(), "", "status", io.Discard); err == nil ||
		!strings.Contains(err.Error(), "several clusters run") {
		t.Errorf("two clusters run: %v", err)
	}
	if _, err := os.Stat(filepath.Join(registry, "2")); !os.IsNotExist(err) {
		t.Errorf("the entry of a cluster that is gone stays: %v", err)
	}
}

// observed is a member that has answered some reads, all in about a millisecond.
func observed(pid int, answered, fast uint64) dev.Observation {
	buckets := make([]uint64, 112)
	buckets[111] = answered // 992 to 1023 microseconds
	return dev.Observation{
		Label: "a", Site: "a", State: dev.Serving, PID: pid, Redis: "127.0.0.1:1", GRPC: "127.0.0.1:2",
		Status: &adminv1.StatusResponse{Operations: []*adminv1.Operations{
			{Kind: "read", Answered: answered, Fast: fast, LatencyBuckets: buckets},
		}},
	}
}

func TestTable(t *testing.T) {
	rates, now := newRates(), time.Now()
	row := func(o dev.Observation, after time.Duration) string {
		return strings.Join(strings.Fields(rates.table([]dev.Observation{o}, now.Add(after))[1]), " ")
	}
	for _, step := range []struct {
		o     dev.Observation
		after time.Duration
		want  string
	}{
		{observed(7, 100, 50), 0, "a serving - - - - 127.0.0.1:1 127.0.0.1:2 7"},
		{observed(7, 300, 250), time.Second, "a serving 200 1.0 ms 1.0 ms 100% 127.0.0.1:1 127.0.0.1:2 7"},
		{observed(7, 500, 350), 2 * time.Second, "a serving 200 1.0 ms 1.0 ms 75% 127.0.0.1:1 127.0.0.1:2 7"},
		// Nothing since the latest look.
		{observed(7, 500, 350), 20 * time.Second, "a serving 0 - - - 127.0.0.1:1 127.0.0.1:2 7"},
		{observed(8, 10, 10), 21 * time.Second, "a serving - - - - 127.0.0.1:1 127.0.0.1:2 8"},
		{observed(8, 30, 20), 23 * time.Second, "a serving 10 1.0 ms 1.0 ms 50% 127.0.0.1:1 127.0.0.1:2 8"},
		{dev.Observation{Label: "a", State: dev.Crashed, Reason: "disk full", PID: 8}, 24 * time.Second,
			"a crashed - - - - 8"},
	} {
		if got := row(step.o, step.after); got != step.want {
			t.Errorf("after %s: %q, want %q", step.after, got, step.want)
		}
	}
	lines := rates.table([]dev.Observation{{Label: "a", State: dev.Crashed, Reason: "disk full"}, {Label: "b"}}, now)
	if len(lines) != 4 || lines[3] != "a crashed: disk full" {
		t.Errorf("the reason of a crash is not below the table: %q", lines)
	}
}
