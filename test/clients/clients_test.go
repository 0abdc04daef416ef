//go:build clients

package clients

import (
	"context"
	"encoding/csv"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience bounds one run of a client.
const patience = 2 * time.Minute

// protocols are the versions of the Redis protocol, as flags of the clients.
var protocols = []struct{ name, flag string }{{"RESP2", "-2"}, {"RESP3", "-3"}}

// run runs a client to its end and returns what it printed.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// cli runs one command with redis-cli, which exits with status 0 on an error reply too.
func cli(t *testing.T, port int, flag string, command ...string) string {
	t.Helper()
	return run(t, "redis-cli", append([]string{flag, "-h", "127.0.0.1", "-p", strconv.Itoa(port)}, command...)...)
}

// transaction adds 2 to a counter, reads it, and returns what redis-cli printed: the new value behind what was queued.
func transaction(t *testing.T, port int, flag, counter string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "redis-cli", flag, "-h", "127.0.0.1", "-p", strconv.Itoa(port))
	c.Stdin = strings.NewReader(fmt.Sprintf("MULTI\nINCRBY %s 2\nGET %s\nEXISTS %s\nEXEC\n", counter, counter, counter))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
	return string(out)
}

func TestRedisClients(t *testing.T) {
	ports := start(t, "../../config/samples/gryff-five-regions.yaml")
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			t.Run("redis-cli", func(t *testing.T) { testCLI(t, ports, protocol.flag) })
			t.Run("redis-benchmark", func(t *testing.T) { testBenchmark(t, ports, protocol.flag) })
		})
	}
}

// testCLI writes at one site and reads at the others.
func testCLI(t *testing.T, ports []int, flag string) {
	counter := "counter" + flag
	for i, port := range ports {
		key, value, other := fmt.Sprintf("key%s-%d", flag, i), fmt.Sprintf("value %d", i), ports[(i+1)%len(ports)]
		for _, step := range []struct {
			port    int
			command []string
			want    string
		}{
			{port, []string{"SET", key, value}, "OK"},
			{other, []string{"GET", key}, value},
			{other, []string{"SETNX", key, "x"}, "0"},
			{other, []string{"STRLEN", key}, strconv.Itoa(len(value))},
			{other, []string{"GETDEL", key}, value},
			{port, []string{"GET", key}, ""},
			{port, []string{"INCR", counter}, strconv.Itoa(i + 1)},
			{port, []string{"TYPE", counter}, "string"},
		} {
			if got := cli(t, step.port, flag, step.command...); got != step.want {
				t.Errorf("%s through port %d answered %q, want %q", strings.Join(step.command, " "),
					step.port, got, step.want)
			}
		}
	}
	for i, port := range ports {
		got, want := transaction(t, port, flag, counter), fmt.Sprintf("OK QUEUED QUEUED QUEUED %d", len(ports)+2*i+2)
		if !strings.HasPrefix(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("a transaction through port %d answered %q, want %s", port, got, want)
		}
	}
	for _, command := range [][]string{{"EXEC"}, {"KEYS", "*"}, {"EXPIRE", counter, "1"}} {
		if got := cli(t, ports[0], flag, command...); !strings.HasPrefix(got, "ERR") &&
			!strings.HasPrefix(got, "(error)") {
			t.Errorf("%s answered %q, want an error", command[0], got)
		}
	}
	if got := cli(t, ports[0], flag, "PING"); got != "PONG" {
		t.Errorf("PING answered %q", got)
	}
}

// testBenchmark runs redis-benchmark to completion, one command after the other and pipelined. All its INCRs
// are of one key, so that the key's value tells whether each took effect exactly once.
func testBenchmark(t *testing.T, ports []int, flag string) {
	const requests, counter = 1000, "counter:__rand_int__"
	for i, pipeline := range []string{"1", "10"} {
		port := ports[i]
		cli(t, port, flag, "DEL", counter)
		args := []string{
			"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-t", "set,get,incr", "-n", strconv.Itoa(requests),
			"-c", "50", "-P", pipeline, "--csv",
		}
		if flag == "-3" { // RESP2 has no flag of its own here
			args = append(args, flag)
		}
		checkCSV(t, run(t, "redis-benchmark", args...))
		if got := cli(t, ports[len(ports)-1], flag, "GET", counter); got != strconv.Itoa(requests) {
			t.Errorf("after %d INCRs with pipelines of %s the counter is %q", requests, pipeline, got)
		}
	}
}

// checkCSV checks that redis-benchmark finished all its tests.
func checkCSV(t *testing.T, text string) {
	t.Helper()
	t.Log("\n" + text)
	at := strings.Index(text, `"test"`) // warnings may come first
	if at < 0 {
		t.Fatalf("redis-benchmark printed no table:\n%s", text)
	}
	rows, err := csv.NewReader(strings.NewReader(text[at:])).ReadAll()
	if err != nil {
		t.Fatalf("redis-benchmark's table: %v\n%s", err, text)
	}
	done := map[string]bool{}
	for _, row := range rows[1:] {
		rate, err := strconv.ParseFloat(row[1], 64)
		done[row[0]] = err == nil && rate > 0
	}
	for _, test := range []string{"SET", "GET", "INCR"} {
		if !done[test] {
			t.Errorf("redis-benchmark did not finish %s:\n%s", test, text)
		}
	}
}
