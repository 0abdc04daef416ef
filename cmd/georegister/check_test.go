package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asProgram is set in the environment of this test's own program where it is to be georegister.
const asProgram = "GEOREGISTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	checkWrite = `{"client":"a","kind":"write","key":"k","value":"v","invoked_ns":1,"returned_ns":2,"status":"ok"}` +
		"\n"
	checkRead = `{"client":"b","kind":"read","key":"k","reply":"v","invoked_ns":3,"returned_ns":4,"status":"ok"}` +
		"\n"
	checkOther = `{"client":"c","kind":"rmw","key":"k","function":"twice.v1","reply":"vv","invoked_ns":7,"returned_ns":8,"status":"ok"}` + "\n"
	checkStale = `{"client":"b","kind":"read","key":"k","invoked_ns":5,"returned_ns":6,"status":"ok"}` + "\n"
	checkStamp = `{"client":"b","kind":"read","key":"k","reply":"v","carstamp":"1/1.1.1/0","invoked_ns":3,"returned_ns":4,"status":"ok"}` + "\n"
	checkFence = `{"kind":"fence","client":"b","invoked_ns":5,"returned_ns":6}` + "\n"
	checkTold  = `{"kind":"message","from":"b","sent_ns":5,"to":"c","received_ns":6}` + "\n"
	checkOpen  = `{"client":"a","kind":"write","key":"k","value":"v","invoked_ns":1,"status":"unknown"}` + "\n"
	checkOlder = `{"client":"c","kind":"read","key":"k","invoked_ns":7,"returned_ns":8,"status":"ok"}` + "\n"
	checkMayBe = `{"client":"b","kind":"read","key":"k","stale":true,"invoked_ns":5,"returned_ns":6,"status":"ok"}` +
		"\n"
)

const (
	checkBoth = `{"client":"a","kind":"read-write","writes":[{"key":"x","value":"1"},{"key":"y","value":"1"}],` +
		`"invoked_ns":1,"returned_ns":2,"status":"committed"}` + "\n"
	checkSlow = `{"client":"a","kind":"read-write","writes":[{"key":"x","value":"1"},{"key":"y","value":"1"}],` +
		`"invoked_ns":1,"returned_ns":9,"status":"committed"}` + "\n"
	checkSees = `{"client":"b","kind":"read-only","reads":[{"key":"x","value":"1"},{"key":"y","value":"1"}],` +
		`"invoked_ns":3,"returned_ns":4,"status":"committed"}` + "\n"
	checkHalf = `{"client":"b","kind":"read-only","reads":[{"key":"x","value":"1"},{"key":"y"}],` +
		`"invoked_ns":3,"returned_ns":4,"status":"committed"}` + "\n"
	checkMiss = `{"client":"c","kind":"read-only","reads":[{"key":"x"},{"key":"y"}],` +
		`"invoked_ns":5,"returned_ns":6,"status":"committed"}` + "\n"
)

func TestCheckCommand(t *testing.T) {
	tests := []struct {
		name, history string
		args          []string
		out, err      string // "" as err is success
		picture       bool
	}{
		{name: "linearizable", history: checkWrite + checkRead, out: "verdict: linearizable\n2 operations on 1 keys"},
		{
			name: "violation", history: checkWrite + checkStale, out: `b: read("k") -> absent`,
			err: "not linearizable", picture: true,
		},
		{name: "unjudged", history: checkWrite + checkMayBe, out: "verdict: linearizable"},
		{
			name: "stale within the bound", history: checkWrite + checkMayBe, args: []string{"--stale=5ns"},
			out: "verdict: linearizable",
		},
		{name: "stale beyond the bound", history: checkWrite + checkMayBe, args: []string{"--stale=1ns"},
			out: `b (stale): read("k") -> absent`,
			err: "one is older than 1ns", picture: true},
		{name: "bad bound", history: checkWrite, args: []string{"--stale=-1s"}, err: "--stale is -1s"},
		{name: "bad line", history: checkWrite + "{}\n", err: `line 2: field "client" is missing`},
		{
			name: "torn line", history: checkWrite + checkRead[:30],
			err: "line 2: not a JSON object, as each line of a history is: unexpected end of JSON input; the line " +
				"has no end, as if its writer was killed, or is writing still: --torn leaves it out",
		},
		{
			name: "other bytes", history: checkWrite + "\x00\x00\n",
			err: "line 2: not a JSON object, as each line of a history is: invalid character '\\x00'",
		},
		{name: "no text", history: checkWrite + "\xff\n", err: "line 2: not UTF-8; write other bytes as"},
		{
			name: "deep", history: strings.Repeat("[", 1<<20) + "\n",
			err: "line 1: not a JSON object, as each line of a history is: invalid character '[' exceeded max depth",
		},
		{
			name: "deep within", history: `{"args":` + strings.Repeat("[", 1<<20) + "\n",
			err: "line 1: not a JSON object, as each line of a history is: invalid character '[' exceeded max depth",
		},
		{
			name: "bad memory", history: checkWrite, args: []string{"--max-memory=much"},
			err: `--max-memory is "much"; give at least 64Mi, such as 4Gi`,
		},
		{name: "little memory", history: checkWrite, args: []string{"--max-memory=1Mi"}, err: "--max-memory"},
		{
			name: "torn line left out", history: checkWrite + checkRead[:30], args: []string{"--torn"},
			out: "1 operations",
		},
		{
			name: "function of another program", history: checkWrite + checkOther,
			err: `client c, key "k", invoked_ns 7: unknown rmw function "twice.v1"`,
		},
		{name: "empty", err: "nothing to check"},
		{name: "rsc, which is not linearizable", history: checkOpen + checkRead + checkOlder,
			args: []string{"--model=rsc"},
			out: "verdict: regular-sequential\n3 operations on 1 keys, 3 checked, 1 of them of unknown outcome, 0 " +
				"messages and 0 fences"},
		{
			name: "linearizable, which is rsc", history: checkOpen + checkRead + checkOlder, out: "verdict: violation",
			err: "not linearizable", picture: true,
		},
		{
			name: "with a hint", history: checkOpen + checkRead + checkFence + checkOlder,
			out: "check that with --model rsc", err: "not linearizable", picture: true,
		},
		{name: "fenced", history: checkOpen + checkStamp + checkFence + checkOlder, args: []string{"--model=rsc"},
			out: "each of these operations has to come before the next one, and the last before the first:\n",
			err: "the history is not regular sequentially consistent"},
		{name: "told", history: checkOpen + checkTold + checkStamp + checkOlder, args: []string{"--model=rsc"},
			out: `c: read("k") -> absent`, err: "the history is not regular sequentially consistent"},
		{
			name: "rsc by stale answers", history: checkWrite, args: []string{"--model=rsc", "--stale=1s"},
			err: "--stale has no meaning with --model rsc",
		},
		{
			name: "linearizable by states", history: checkWrite, args: []string{"--max-states=1"},
			err: "--max-states has no meaning with --model linearizable",
		},
		{
			name: "bad bound of states", history: checkWrite, args: []string{"--model=rsc", "--max-states=-1"},
			err: "--max-states is -1; give 0",
		},
		{
			name: "bad model", history: checkWrite, args: []string{"--model=rrs"},
			err: `--model is "rrs"; give linearizable, rsc, strict-serializable or rss`,
		},
		{name: "transactions", history: checkBoth + checkSees + checkWrite,
			args: []string{"--model=strict-serializable"},
			out:  "verdict: strictly-serializable\n3 transactions on 3 keys, 3 checked, 0 of them of unknown outcome"},
		{name: "half of a transaction", history: checkBoth + checkHalf, args: []string{"--model=strict-serializable"},
			out: `b: read-only: found "1" under "x", found absent under "y" -> committed`,
			err: "the history is not strictly serializable"},
		{name: "half of a transaction, by the other model", history: checkBoth + checkHalf,
			args: []string{"--model=rss"},
			out:  "verdict: violation", err: "the history is not regular sequentially serializable"},
		{name: "a stale one, regular", history: checkSlow + checkSees + checkMiss, args: []string{"--model=rss"},
			out: "verdict: regular-sequentially-serializable\n"},
		{name: "a stale one, strict", history: checkSlow + checkSees + checkMiss,
			args: []string{"--model=strict-serializable"},
			err:  "the history is not strictly serializable"},
		{name: "transactions without a model", history: checkBoth,
			err: "has transactions; give --model strict-serializable or rss"},
		{name: "an rmw among transactions", history: checkBoth + checkOther, args: []string{"--model=rss"},
			err: `client c, key "k", invoked_ns 7: an rmw among transactions; record it as a read-write transaction`},
		{name: "transactions by picture", history: checkBoth, args: []string{"--model=rss", "--picture=x"},
			err: "--picture has no meaning with --model rss"},
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
			if test.err == "" && err != nil ||
				test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
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

// endless gives the same line again and again, up to a bound that ends a test in any case.
type endless struct {
	line string
	left int
}

func (e *endless) Read(p []byte) (n int, err error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	for n < len(p) && e.left > 0 {
		m := copy(p[n:], e.line)
		m -= m % len(e.line)
		if m == 0 {
			break
		}
		n, e.left = n+m, e.left-m
	}
	return n, nil
}

func TestCheckIsBounded(t *testing.T) {
	for _, test := range []struct {
		name, line, err string
		args            []string
	}{
		{
			name: "a line", line: strings.Repeat("\x00", 64),
			err: "standard input: read the history: line 1: longer than 128 MiB, which no operation is",
		},
		{
			name: "all lines", line: checkWrite, args: []string{"--max-memory=128Mi"},
			err: "stopped: it takes more than 128Mi of memory: check fewer operations at once, or allow more with " +
				"--max-memory",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCheckCommand()
			c.SilenceErrors, c.SilenceUsage = true, true
			c.SetIn(&endless{test.line, 1 << 29})
			c.SetOut(io.Discard)
			c.SetArgs(append(test.args, "-"))
			if err := c.Execute(); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
		})
	}
	c := newCheckCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs([]string{t.TempDir()})
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "is a directory; give the file of a history") {
		t.Errorf("of a directory: %v", err)
	}
}

// A check ends though what it reads does not.
func TestCheckEndsWhileItReads(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error)
	go func() { over <- runCheck(ctx, in, io.Discard, "-", checkFlags{}) }()
	if _, err := io.WriteString(out, checkWrite); err != nil { // it is read, and more is waited for
		t.Fatal(err)
	}
	ended := errors.New("ended by this test")
	cancel(ended)
	if err := <-over; !errors.Is(err, ended) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("%v", err)
	}
}

// A whole program ends at SIGTERM, in words, where it waits for a pipe, and for who will write to one.
func TestProgramEndsAtASignal(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), os.Args[0], "check", pipe)
	program.Env = append(os.Environ(), asProgram+"=yes")
	var said bytes.Buffer
	program.Stderr = &said
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // as soon as the program opens it
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var status *exec.ExitError
	if err := program.Wait(); !errors.As(err, &status) || status.ExitCode() != 1 ||
		!strings.Contains(said.String(), "stopped") {
		t.Errorf("%v, and it said %q", err, said.String())
	}
}
