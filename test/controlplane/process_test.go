//go:build controlplane

package controlplane

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
)

// program is an operator that runs as a process of its own, which signals stop as they stop a real one.
type program struct {
	command *exec.Cmd
	ended   chan struct{}
	mu      sync.Mutex
	log     bytes.Buffer
}

// Write implements io.Writer for the process' log.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *program) logged(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.log.Bytes(), []byte(text))
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		t.Fatalf("signal %v to the operator: %v", s, err)
	}
}

// operatorBinary builds the operator as it is shipped.
func operatorBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "georegister-operator")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/georegister-operator")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the operator: %v\n%s", err, out)
	}
	return binary
}

// startProcess runs the operator of a namespace without an election until the test ends.
func startProcess(t *testing.T, binary, namespace string) *program {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{ended: make(chan struct{})}
	p.command = exec.Command(binary, "run", "--namespaces", namespace, "--namespace", namespace,
		"--default-image", "georegister:test",
		"--lost-after", settings(namespace).LostAfter.String(), "--metrics-address", "0", "--health-address", "0")
	p.command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	p.command.Stdout, p.command.Stderr = p, p
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // how it ended is in its log
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Signal(syscall.SIGCONT) // these fail only when it has ended
		_ = p.command.Process.Signal(syscall.SIGTERM)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		select {
		case <-p.ended:
		case <-ctx.Done():
			_ = p.command.Process.Kill()
			<-p.ended
		}
		if t.Failed() {
			t.Logf("the operator's log:\n%s", p.log.String())
		}
	})
	return p
}

// Two operators work at the same time. One is stopped by the kernel while the other replaces two members, and goes on
// with what it believed.
func TestTwoOperatorProcessesOfWhichOneIsSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	binary := operatorBinary(t)
	first, second := startProcess(t, binary, w.namespace), startProcess(t, binary, w.namespace)
	c := w.create("store", nil)
	w.serving(c)
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)
	eventually(t, "both operators work", func() string {
		for _, p := range []*program{first, second} {
			if !p.logged("Starting workers") {
				return "one of them has not begun"
			}
		}
		return ""
	})

	first.signal(t, syscall.SIGSTOP)
	w.loseVolume(c, w.record(c).Members[2])
	w.replaced(c, 3)
	w.loseVolume(c, w.record(c).Members[0])
	after := w.replaced(c, 5)
	first.signal(t, syscall.SIGCONT)
	second.signal(t, syscall.SIGSTOP) // from now on only the one that was suspended can do anything
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	w.updated(c, "georegister:next")
	load.Progress(200)
	w.holds(c, after)
	if got := w.record(c); got.Epoch != 5 {
		t.Errorf("the record is at epoch %d: the suspended operator replaced somebody", got.Epoch)
	}
	load.Finish()
}
