package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	checkWrite = `{"client":"a","kind":"write","key":"k","value":"v","invoked_ns":1,"returned_ns":2,"status":"ok"}` + "\n"
	checkRead  = `{"client":"b","kind":"read","key":"k","reply":"v","invoked_ns":3,"returned_ns":4,"status":"ok"}` + "\n"
	checkOther = `{"client":"c","kind":"rmw","key":"k","function":"twice.v1","reply":"vv","invoked_ns":7,"returned_ns":8,"status":"ok"}` + "\n"
	checkStale = `{"client":"b","kind":"read","key":"k","invoked_ns":5,"returned_ns":6,"status":"ok"}` + "\n"
)

func TestCheckCommand(t *testing.T) {
	tests := []struct {
		name, history string
		args          []string
		out, err      string // "" as err is success
		picture       bool
	}{
		{name: "linearizable", history: checkWrite + checkRead, out: "verdict: linearizable\n2 operations on 1 keys"},
		{name: "violation", history: checkWrite + checkStale, out: `b: read("k") -> absent`, err: "not linearizable", picture: true},
		{name: "bad line", history: checkWrite + "{}\n", err: `line 2: field "client" is missing`},
		{name: "torn line", history: checkWrite + checkRead[:30], err: "line 2: not a JSON object"},
		{name: "torn line left out", history: checkWrite + checkRead[:30], args: []string{"--torn"}, out: "1 operations"},
		{name: "function of another program", history: checkWrite + checkOther, err: `client c, key "k", invoked_ns 7: unknown rmw function "twice.v1"`},
		{name: "empty", err: "nothing to check"},
		{name: "bad timeout", history: checkWrite, args: []string{"--timeout=-1s"}, err: "--timeout is -1s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "history.jsonl")
			if err := os.WriteFile(file, []byte(test.history), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			c := newCheckCommand()
			c.SilenceErrors, c.SilenceUsage = true, true
			c.SetOut(&out)
			c.SetArgs(append(test.args, file))
			err := c.Execute()
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
			if !strings.Contains(out.String(), test.out) {
				t.Errorf("printed\n%s\nwithout %q", out.String(), test.out)
			}
			page, _ := os.ReadFile(file + ".html")
			if drawn := bytes.Contains(page, []byte("<html")); drawn != test.picture {
				t.Errorf("picture drawn: %t, want %t", drawn, test.picture)
			}
		})
	}
}

func TestCheckCommandReadsStandardInput(t *testing.T) {
	var out bytes.Buffer
	c := newCheckCommand()
	c.SetIn(strings.NewReader(checkWrite + checkRead))
	c.SetOut(&out)
	c.SetArgs([]string{"-"})
	if err := c.Execute(); err != nil || !strings.HasPrefix(out.String(), "verdict: linearizable\n") {
		t.Errorf("printed %q, error %v", out.String(), err)
	}
}
