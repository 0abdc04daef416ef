package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/cmd/program"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
	"github.com/georegister/georegister/test/listenertest/loopback"
	"github.com/georegister/georegister/workload/checked"
)

func TestVerifyCommandTellsMistakes(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no site", []string{}, "no sites: give --site NAME=HOST:PORT for each, or --cluster and --sites"},
		{"a cluster without sites", []string{"--cluster", "shop"}, "--cluster shop: name its sites"},
		{"sites without a cluster", []string{"--sites", "ca,va"}, "--sites names the sites of --cluster"},
		{"both ways to name sites", []string{"--cluster", "shop", "--sites", "ca", "--site", "ca=a:7001"},
			"exclude each other"},
		{"a site without an address", []string{"--site", "ca"}, "--site ca: write it like ca=shop--ca:7001"},
		{"a site without a name", []string{"--site", "=shop--ca:7001"}, "--site =shop--ca:7001: write it like"},
		{"an empty address", []string{"--site", "ca="}, "--site ca=: write it like"},
		{"a site given twice", []string{"--site", "ca=a:7001", "--site", "ca=b:7001"},
			"--site ca=b:7001: site ca was given already"},
		{"no clients", []string{"--site", "ca=a:7001", "--clients", "0"}, "--clients is 0; give at least 1"},
		{"no time", []string{"--site", "ca=a:7001", "--duration", "0s"}, "--duration is 0s; give a time, such as 30s"},
		{"a time before now", []string{"--site", "ca=a:7001", "--duration", "-1s"}, "--duration is -1s"},
		{"a pace before now", []string{"--site", "ca=a:7001", "--every", "-1s"},
			"--every is -1s; give 0 for no pause, or more"},
		{"a protocol that is not known", []string{"--site", "ca=a:7001", "--protocol", "Paxos"}, "Paxos"},
		{"a flag that is not known", []string{"--how"}, "unknown flag: --how"},
		{"an argument", []string{"shop"}, "unknown command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := verifyCommand(t, &bytes.Buffer{}, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			status := program.Status(verifyCommand(t, &bytes.Buffer{}, tt.args...))
			if status != 2 && tt.name != "an argument" {
				t.Errorf("the exit status is %d; nothing was decided, so it should be 2", status)
			}
		})
	}
}

func TestVerifyCommand(t *testing.T) {
	address, stop, err := loopback.Serve(t, &listenertest.Memory{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var out bytes.Buffer
	err = verifyCommand(t, &out, "--site", "ca="+address, "--site", "va="+address, "--duration",
		"200ms", "--clients", "1")
	if err != nil || !strings.Contains(out.String(), "1 clients at each of 2 sites") ||
		!strings.Contains(out.String(), "verdict: linearizable") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestVerifyCommandNamesServices(t *testing.T) {
	got, err := verifiedSites(nil, "shop", []string{"ca", "va"})
	want := []client.Endpoint{{Site: "ca", Address: "shop--ca:7001"}, {Site: "va", Address: "shop--va:7001"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

// The exit status is the verdict, and the report is where a container's last message is read.
func TestVerifyCommandTellsTheVerdict(t *testing.T) {
	for _, tt := range []struct {
		name    string
		store   *listenertest.Memory
		verdict string
		status  int
	}{
		{"sound", &listenertest.Memory{}, checked.Proved, 0},
		{"loses writes", &listenertest.Memory{Delay: time.Millisecond, Intercept: listenertest.LoseWrites},
			checked.Violated, 1},
		{"refuses reads", &listenertest.Memory{Intercept: func(op register.Operation) (register.Result, bool, bool) {
			return register.Result{Status: register.Invalid, Message: "no reads"}, false, op.Kind == register.Read
		}}, checked.NotDecided, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address, stop, err := loopback.Serve(t, tt.store)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			file := filepath.Join(t.TempDir(), "report")
			var out bytes.Buffer
			err = verifyCommand(t, &out, "--site", "ca="+address, "--duration", "300ms", "--clients",
				"1", "--report", file)
			if got := program.Status(err); got != tt.status {
				t.Errorf("the exit status is %d, want %d: %v", got, tt.status, err)
			}
			report, err := os.ReadFile(file)
			if err != nil || len(report) > 4096 || !strings.HasSuffix(out.String(), string(report)) {
				t.Errorf("the report is not the last line of the output: %v\n%s", err, report)
			}
			var s checked.Summary
			if err := json.Unmarshal(report, &s); err != nil || s.Verdict != tt.verdict || s.Operations == 0 ||
				s.Outcomes["ok"] == 0 || s.Sites["ca"].OK == 0 {
				t.Errorf("%v in %s", err, report)
			}
		})
	}
}

func verifyCommand(t *testing.T, out *bytes.Buffer, args ...string) error {
	c := newVerificationCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(out)
	c.SetArgs(args)
	return c.ExecuteContext(t.Context())
}
