//go:build controlplane

package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// valve is what the writes of an operator pass through.
type valve interface {
	// write is asked for each request that changes something; what says which change it makes. Send sends it.
	write(path, what string, send func() error) error
	// tell is asked for each view that members are told.
	tell(v view.View, send func() error) error
}

// writes puts a valve before the apiserver.
type writes struct {
	valve valve
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w writes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return w.next.RoundTrip(r)
	}
	what := r.Method + " " + r.URL.Path
	if r.GetBody != nil && r.Method != http.MethodDelete { // a deletion names the revision that it was decided on
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		what += fmt.Sprintf(" %x", sha256.Sum256(meant(content)))
	}
	var response *http.Response
	err := w.valve.write(r.URL.Path, what, func() (err error) {
		response, err = w.next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		return err
	})
	if err != nil && response != nil {
		_ = response.Body.Close() // of an answer that nobody gets
	}
	return response, err
}

// meant is an object that is written, without the revision that it was decided on.
func meant(content []byte) []byte {
	var object map[string]any
	if err := json.Unmarshal(content, &object); err != nil {
		return content // not an object
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "uid")
		delete(metadata, "resourceVersion")
	}
	text, _ := json.Marshal(object) // of what was read
	return text
}

// told puts a valve before the members.
type told struct {
	members.Members
	valve valve
}

// Configure implements members.Members.
func (t told) Configure(ctx context.Context, cluster string, targets []members.Target, v view.View) error {
	return t.valve.tell(v, func() error {
		return t.Members.Configure(context.WithoutCancel(ctx), cluster, targets, v)
	})
}

// Live implements members.Members.
func (t told) Live(
	ctx context.Context, cluster string, targets []members.Target, v view.View, start, end []membership.Life,
) error {
	return t.valve.write("no write to the apiserver", fmt.Sprintf("lives: begin %v, end %v", start, end), func() error {
		return t.Members.Live(context.WithoutCancel(ctx), cluster, targets, v, start, end)
	})
}

// errKilled is what a killed operator's writes end with.
var errKilled = errors.New("the operator was killed")

// Fuse kills operators, one after the other, at each write that none before made: in turns before the write is sent and
// before its answer is there. What an operator writes of a status, or as an event, does not count.
type Fuse struct {
	mu    sync.Mutex
	armed bool
	seen  map[string]bool
	sends bool // whether the next fatal write is sent
	blown chan struct{}
}

// NewFuse returns a fuse that lets everything pass until it is armed.
func NewFuse() *Fuse { return &Fuse{seen: map[string]bool{}, blown: make(chan struct{})} }

// Arm has the operator be killed at its next write that was never made before.
func (f *Fuse) Arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

// Renew makes the fuse ready for the next operator.
func (f *Fuse) Renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blown = make(chan struct{})
}

// Blown is closed when the operator is to be killed.
func (f *Fuse) Blown() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blown
}

func (f *Fuse) write(path, what string, send func() error) error {
	if strings.HasSuffix(path, "/status") || strings.HasSuffix(path, "/events") {
		what = ""
	}
	return f.burn(what, send)
}

func (f *Fuse) tell(v view.View, send func() error) error { return f.burn("tell "+v.Digest(), send) }

// burn sends a write, unless it is the last one of its operator, or later.
func (f *Fuse) burn(what string, send func() error) error {
	f.mu.Lock()
	select {
	case <-f.blown:
		f.mu.Unlock()
		return errKilled
	default:
	}
	known := !f.armed || what == "" || f.seen[what]
	f.seen[what] = true
	if known {
		f.mu.Unlock()
		return send()
	}
	close(f.blown)
	f.sends = !f.sends
	sends := f.sends
	f.mu.Unlock()
	if sends {
		_ = send() // nobody hears how it ended
	}
	return errKilled
}

// open is a valve that lets everything pass.
type open struct{}

func (open) write(_, _ string, send func() error) error { return send() }
func (open) tell(_ view.View, send func() error) error  { return send() }
