package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/server/servertest"
	"github.com/georegister/georegister/replica/server/servertest/loopback"
)

func TestVerifyCommandTellsMistakes(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no site", nil, `required flag(s) "site" not set`},
		{"a site without an address", []string{"--site", "ca"}, "--site ca: write it like ca=shop-ca:7001"},
		{"a site without a name", []string{"--site", "=shop-ca:7001"}, "--site =shop-ca:7001: write it like"},
		{"an empty address", []string{"--site", "ca="}, "--site ca=: write it like"},
		{"a site given twice", []string{"--site", "ca=a:7001", "--site", "ca=b:7001"}, "--site ca=b:7001: site ca was given already"},
		{"no clients", []string{"--site", "ca=a:7001", "--clients", "0"}, "--clients is 0; give at least 1"},
		{"no time", []string{"--site", "ca=a:7001", "--duration", "0s"}, "--duration is 0s; give a time, such as 30s"},
		{"a time before now", []string{"--site", "ca=a:7001", "--duration", "-1s"}, "--duration is -1s"},
		{"a pace before now", []string{"--site", "ca=a:7001", "--every", "-1s"}, "--every is -1s; give 0 for no pause, or more"},
		{"a protocol that is not known", []string{"--site", "ca=a:7001", "--protocol", "Raft"}, "Raft"},
		{"an argument", []string{"shop"}, "unknown command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := verifyCommand(t, &bytes.Buffer{}, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestVerifyCommand(t *testing.T) {
	address, stop, err := loopback.Serve(t, &servertest.Memory{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var out bytes.Buffer
	err = verifyCommand(t, &out, "--site", "ca="+address, "--site", "va="+address, "--duration", "200ms", "--clients", "1")
	if err != nil || !strings.Contains(out.String(), "1 clients at each of 2 sites") || !strings.Contains(out.String(), "verdict: linearizable") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func verifyCommand(t *testing.T, out *bytes.Buffer, args ...string) error {
	c := newVerificationCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(out)
	c.SetArgs(args)
	return c.ExecuteContext(t.Context())
}
