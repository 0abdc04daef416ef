package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// patience bounds the wait for any one condition.
	patience = time.Minute
	// poll is the pause between two looks at a condition.
	poll = 50 * time.Millisecond
)

// binary is the program under test, built once; lying is one whose members acknowledge before they persist.
var binary, lying string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	directory, err := os.MkdirTemp("", "georegister-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	redis.SetLogger(quiet{}) // sites that are down are part of the tests
	binary = filepath.Join(directory, "georegister")
	lying = filepath.Join(directory, "georegister-lying")
	for _, arguments := range [][]string{{"-o", binary}, {"-o", lying, "-tags", "lyingdisk"}} {
		command := exec.Command("go", append(append([]string{"build"}, arguments...), "../../cmd/georegister")...)
		if out, err := command.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// quiet logs nothing.
type quiet struct{}

// Printf implements go-redis' logger.
func (quiet) Printf(context.Context, string, ...any) {}

// cluster is a `georegister dev` that runs.
type cluster struct {
	data    string
	command *exec.Cmd
	output  *output
	ended   chan struct{}     // closed when it has ended
	sites   []string          // the members' names, which are those of sites that have one
	redis   map[string]string // by name: address
	admin   map[string]string
	http    map[string]string
	ids     map[string]int
	state   *os.ProcessState // set when it has ended

	identity string
}

// output collects what a process prints, for failures.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs a manifest in a data directory and waits until all of it serves. The test's end stops it.
func start(t *testing.T, manifest, data string) *cluster {
	t.Helper()
	return startWith(t, binary, manifest, data)
}

// startWith is start with a binary of another build.
func startWith(t *testing.T, binary, manifest, data string) *cluster {
	t.Helper()
	c := &cluster{data: data, output: &output{}, ended: make(chan struct{})}
	c.command = exec.Command(binary, "dev", "-f", manifest, "--data", data)
	c.command.Stdout, c.command.Stderr = c.output, c.output
	c.command.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "HOME="+t.TempDir())
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.command.Wait() // the state tells
		c.state = c.command.ProcessState
		close(c.ended)
	}()
	t.Cleanup(func() {
		c.stop(t)
		if t.Failed() {
			t.Logf("georegister dev printed:\n%s", c.output)
		}
	})
	c.await(t, "all members serve", func() (string, bool) {
		printed := c.output.String()
		return printed, strings.Contains(printed, "all members serve after")
	})
	c.locate(t)
	return c
}

// locate reads from the data directory which members there are and where they listen.
func (c *cluster) locate(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.data, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Cluster string
		Members []struct {
			ID    int
			Label string
			Ports struct{ Redis, Admin, HTTP int }
		}
	}
	if err := json.Unmarshal(content, &record); err != nil {
		t.Fatal(err)
	}
	c.identity, c.sites, c.redis, c.admin, c.ids = record.Cluster, nil, map[string]string{},
		map[string]string{}, map[string]int{}
	c.http = map[string]string{}
	for _, m := range record.Members {
		c.sites = append(c.sites, m.Label)
		c.redis[m.Label] = fmt.Sprintf("127.0.0.1:%d", m.Ports.Redis)
		c.admin[m.Label] = fmt.Sprintf("127.0.0.1:%d", m.Ports.Admin)
		c.http[m.Label] = fmt.Sprintf("127.0.0.1:%d", m.Ports.HTTP)
		c.ids[m.Label] = m.ID
	}
}

// send has a command carried out, as from another shell.
func (c *cluster) send(command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary,
		append(append([]string{"dev"}, command...), "--data", c.data)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("dev %s: %w: %s", strings.Join(command, " "), err, out)
	}
	return string(out), nil
}

// must is send for commands that have to succeed.
func (c *cluster) must(t *testing.T, command ...string) {
	t.Helper()
	if _, err := c.send(command...); err != nil {
		t.Fatal(err)
	}
}

// serving reports whether every member serves.
func (c *cluster) serving() (string, bool) {
	table, err := c.send("status")
	if err != nil {
		return err.Error(), false
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines[1:] {
		if fields := strings.Fields(line); len(fields) < 2 || fields[1] != "serving" {
			return table, false
		}
	}
	return table, len(lines) > 1
}

// await polls a condition, and fails the test with what it last saw when it takes too long or dev has ended.
func (c *cluster) await(t *testing.T, what string, condition func() (string, bool)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		seen, ok := condition()
		if ok {
			return
		}
		select {
		case <-c.ended:
			t.Fatalf("waiting until %s: georegister dev has ended (%s)", what, c.state)
		case <-time.After(poll):
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting until %s: after %s: %s", what, patience, seen)
		}
	}
}

// stop ends it in order, as Ctrl-C does; it may have ended before.
func (c *cluster) stop(t *testing.T) {
	t.Helper()
	select {
	case <-c.ended:
		return
	default:
	}
	if err := c.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Errorf("interrupt georegister dev: %v", err)
	}
	select {
	case <-c.ended:
		if !c.state.Success() {
			t.Errorf("georegister dev ended with %s", c.state)
		}
	case <-time.After(patience):
		t.Error("georegister dev did not stop")
		_ = c.command.Process.Kill()
		<-c.ended
	}
	for _, site := range c.sites {
		if listens(c.redis[site]) {
			t.Errorf("the member at %s outlived georegister dev", site)
		}
	}
}

// listens reports whether somebody accepts connections at an address.
func listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// connect returns a client of one site, which never retries by itself.
func (c *cluster) connect(site string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: c.redis[site], MaxRetries: -1, PoolSize: 1, DialerRetries: 1,
		DialTimeout: 2 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 5 * time.Second,
	})
}

// manifest writes a manifest of five sites in the proportions of the Gryff paper's matrix, ten times nearer. With CURP
// each has a master, so that what happens to a site happens to one: by distances some have none.
func manifest(t *testing.T, protocol string) string {
	t.Helper()
	text := `apiVersion: georegister.io/v1alpha1
kind: GeoRegisterCluster
metadata: {name: e2e}
spec:
  protocol: ` + protocol + `
  sites: [{name: ca}, {name: va}, {name: ir}, {name: or}, {name: jp}]
  wan:
    links:
    - {between: [ca, va], rtt: 7.2ms}
    - {between: [ca, ir], rtt: 15.1ms}
    - {between: [ca, or], rtt: 5.9ms}
    - {between: [ca, jp], rtt: 11.3ms}
    - {between: [va, ir], rtt: 8.8ms}
    - {between: [va, or], rtt: 9.3ms}
    - {between: [va, jp], rtt: 16.2ms}
    - {between: [ir, or], rtt: 14.5ms}
    - {between: [ir, jp], rtt: 22.0ms}
    - {between: [or, jp], rtt: 12.1ms}
`
	if protocol == "CURP" {
		text += "  homes: [ca, va, ir, or, jp]\n"
	}
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
