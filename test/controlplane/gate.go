//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// Gate holds back the writes of an operator, as if its process were stopped between deciding and acting.
type Gate struct {
	only    string // what the path of a request that is held back ends with; empty: every write
	mu      sync.Mutex
	open    chan struct{} // closed while writes may pass
	waiting int           // writes that are held back
}

// NewGate returns an open gate for writes to paths that end so; everything else always passes. Views that members are
// told are held back too.
func NewGate(only string) *Gate {
	g := &Gate{only: only, open: make(chan struct{})}
	close(g.open)
	return g
}

// Close holds back what comes from now on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// Open lets everything pass.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open: // already
	default:
		close(g.open)
	}
}

// Waiting is how many writes are held back.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// holds waits until the gate holds a write back.
func (g *Gate) holds(t testing.TB) {
	t.Helper()
	eventually(t, "the stopped operator is about to change the view", func() string {
		if g.Waiting() == 0 {
			return "it holds no write back"
		}
		return ""
	})
}

// release opens the gate, and waits until all that it held back has passed.
func (g *Gate) release(t testing.TB) {
	t.Helper()
	g.Open()
	eventually(t, "the stopped operator goes on", func() string {
		if n := g.Waiting(); n > 0 {
			return fmt.Sprintf("%d writes are held back", n)
		}
		return ""
	})
}

// pass waits until the gate is open. It waits out deadlines: a stopped process notices them only when it goes on.
func (g *Gate) pass() {
	g.mu.Lock()
	open := g.open
	g.waiting++
	g.mu.Unlock()
	<-open
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
}

// write implements valve. A write that was held back goes out although its sender gave up: it may have left the process
// already when that was stopped.
func (g *Gate) write(path, _ string, send func() error) error {
	if strings.HasSuffix(path, g.only) {
		g.pass()
	}
	return send()
}

// tell implements valve.
func (g *Gate) tell(_ view.View, send func() error) error {
	g.pass()
	return send()
}
