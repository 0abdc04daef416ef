//go:build clients

package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is what `make build` builds.
const binary = "../../bin/georegister"

// start runs a manifest until the test ends, and returns the Redis ports of its members.
func start(t *testing.T, manifest string) []int {
	t.Helper()
	data := t.TempDir()
	output, err := os.Create(filepath.Join(data, "output"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = output.Close() })
	dev := exec.Command(binary, "dev", "-f", manifest, "--data", filepath.Join(data, "cluster"))
	dev.Stdout, dev.Stderr = output, output
	input, err := dev.StdinPipe() // its prompt
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGINT) // it may have ended already
		defer func() { _ = input.Close() }()
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
			_ = dev.Process.Kill()
			err = <-ended
		}
		if err != nil || t.Failed() {
			text, _ := os.ReadFile(output.Name()) // a file that can't be read shows as nothing
			t.Errorf("georegister dev: %v\n%s", err, text)
		}
	})
	return ports(t, filepath.Join(data, "cluster", "cluster.json"), ended)
}

// ports waits until every member of the cluster answers.
func ports(t *testing.T, record string, ended chan error) []int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("georegister dev ended: %v", err)
		default:
		}
		var cluster struct {
			Members []struct{ Ports struct{ Redis int } }
		}
		text, err := os.ReadFile(record)
		if err != nil || json.Unmarshal(text, &cluster) != nil {
			continue // not written yet
		}
		var ready []int
		for _, m := range cluster.Members {
			// A read needs a quorum, so its answer shows that the members found each other too.
			out, err := exec.CommandContext(t.Context(), "redis-cli", "-h", "127.0.0.1",
				"-p", strconv.Itoa(m.Ports.Redis), "GET", "probe").Output()
			if err == nil && strings.TrimSpace(string(out)) == "" {
				ready = append(ready, m.Ports.Redis)
			}
		}
		if len(ready) > 0 && len(ready) == len(cluster.Members) {
			return ready
		}
	}
	t.Fatal("the cluster does not answer")
	return nil
}
