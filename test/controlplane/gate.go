//go:build controlplane

package controlplane

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/georegister/georegister/controllers/members"
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

type gated struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request that was held back goes out although its sender gave up: it may
// have left the process already when that was stopped.
func (g gated) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, g.gate.only) {
		g.gate.pass()
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	return g.next.RoundTrip(r)
}

type gatedMembers struct {
	members.Members
	gate *Gate
}

// Configure implements members.Members.
func (g gatedMembers) Configure(ctx context.Context, cluster string, targets []members.Target, v view.View) error {
	g.gate.pass()
	return g.Members.Configure(context.WithoutCancel(ctx), cluster, targets, v)
}
