// Package compose lets a process use several regular sequentially consistent services, so that together they are one.
//
// Each such service gives an order of its own operations; without more, the orders of two services need not fit
// together: one process may see a new x and then an old y, and another one the new y and then the old x. So whoever
// moves on to another service issues a real-time fence at the former one first (Helt et al., Regular Sequential
// Serializability and Regular Sequential Consistency, section 4.1), and what processes tell each other outside of the
// services takes a context along (section 4.2).
//
// A session of the Go client joins a process with its method Compose; package propagate has contexts go along gRPC
// calls.
package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Service is one process's access to a regular sequential service, such as a session.
type Service interface {
	// Fence returns once everything that causally precedes it at the service, through this access, comes before every
	// operation that anyone invokes there later. After an error nothing is known.
	Fence(ctx context.Context) error
}

// Carrier is a Service whose causal past can be handed to another process. One without is fenced instead.
type Carrier interface {
	Service
	// ExportContext returns what another access needs in order to come after all that this one did and saw.
	ExportContext() ([]byte, error)
	// ImportContext takes that over, beside what this access knows already. The bytes come from outside.
	ImportContext(past []byte) error
}

// What the methods of a Process fail with; test with errors.Is.
var (
	// ErrNotRegistered: no service has the name.
	ErrNotRegistered = errors.New("the service is not registered")
	// ErrRegistered: there is a service of this name.
	ErrRegistered = errors.New("a service of this name is registered")
	// ErrBusy: an operation at the service is under way.
	ErrBusy = errors.New("an operation at the service is under way")
	// ErrContext: the bytes are no context, or one of a later version.
	ErrContext = errors.New("not a context")
)

// Process is one thread of causality: what it does later may depend on what it did before. Use one for each session of
// a user, not one for a whole server, since a Process waits for the fences of all that it did. Its methods may be
// called by several goroutines at once.
type Process struct {
	turn *semaphore.Weighted // of 1, held by who fences

	mu       sync.Mutex
	services map[string]*access
	clock    uint64
}

// access is a service as one process uses it.
type access struct {
	service Service
	used    uint64 // when its order was last added to, on the process's clock; 0: everything there is fenced
	running int    // operations under way
}

// NewProcess returns a process that has done nothing yet and knows no service.
func NewProcess() *Process {
	return &Process{turn: semaphore.NewWeighted(1), services: map[string]*access{}}
}

// Register adds a service under a name, which means the same to all processes that exchange contexts. It is
// REGISTERSERVICE of the paper's figure 3. The name is 1 to MaxNameBytes long. The error is ErrRegistered if the name
// is taken.
func (p *Process) Register(name string, service Service) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("register a service: name has %d bytes; give 1 to %d", len(name), MaxNameBytes)
	}
	if service == nil {
		return fmt.Errorf("register %q: service is nil; give something with a Fence", name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.services[name] != nil {
		return fmt.Errorf("register %q: %w; unregister it first, or give another name", name, ErrRegistered)
	}
	if len(p.services) == MaxServices {
		return fmt.Errorf("register %q: there are %d services already; unregister one first", name, MaxServices)
	}
	p.services[name] = &access{service: service}
	return nil
}

// Unregister removes a service (UNREGISTERSERVICE). It is fenced if it has been used since its last fence, because
// no one can do so later; if that fails, the service stays. The error is ErrBusy while an operation is under way.
func (p *Process) Unregister(ctx context.Context, name string) error {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("unregister %q: %w", name, err)
	}
	defer p.turn.Release(1)
	for {
		p.mu.Lock()
		a := p.services[name]
		var err error
		switch {
		case a == nil:
			err = ErrNotRegistered
		case a.running > 0:
			err = ErrBusy
		case a.used == 0:
			delete(p.services, name)
		}
		again := err == nil && a.used > 0
		p.mu.Unlock()
		if err != nil {
			return fmt.Errorf("unregister %q: %w", name, err)
		}
		if !again {
			return nil
		}
		if err := p.fence(ctx, name); err != nil {
			return fmt.Errorf("unregister %q: %w", name, err)
		}
	}
}

// Start must be called before each operation (STARTTRANSACTION); it issues the fences that the operation needs, one at
// each other service that was used since its last fence, and none if the former operation was at the same service. Call
// end once the operation was answered or given up. After an error the operation must not be sent. Operations of one
// service may be under way at once. Operations that end while others start are not ordered with them.
func (p *Process) Start(ctx context.Context, name string) (end func(), err error) {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("start an operation at %q: %w", name, err)
	}
	defer p.turn.Release(1)
	a := p.access(name)
	if a == nil {
		return nil, fmt.Errorf("start an operation at %q: %w; register it first", name, ErrNotRegistered)
	}
	for _, other := range p.unfenced() {
		if other == name {
			continue
		}
		if err := p.fence(ctx, other); err != nil {
			return nil, fmt.Errorf("start an operation at %q: %w", name, err)
		}
	}
	p.use(a, 1)
	return sync.OnceFunc(func() { p.use(a, -1) }), nil
}

// Fence fences every service that was used since its last fence: what this process did and saw comes before all that
// anyone does from now on. It is the alternative to a context, before telling someone something that can't carry one.
func (p *Process) Fence(ctx context.Context) error {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	defer p.turn.Release(1)
	for _, name := range p.unfenced() {
		if err := p.fence(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Export returns the context that has to go along with whatever this process tells another one: the names of the
// services that it has used since their last fence, usually that of the last one, and what these services want to be
// known. A service that can't be carried, or not within MaxPastBytes and MaxContextBytes, is fenced instead. Operations
// that are under way are not part of it.
func (p *Process) Export(ctx context.Context) ([]byte, error) {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("export the context: %w", err)
	}
	defer p.turn.Release(1)
	var entries []entry
	size := 1 + maxCountBytes
	for _, name := range p.unfenced() {
		carrier, ok := p.access(name).service.(Carrier)
		if ok {
			past, err := carrier.ExportContext()
			if err != nil {
				return nil, fmt.Errorf("export the context: service %q: %w", name, err)
			}
			e := entry{name: name, past: past}
			if len(past) <= MaxPastBytes && size+e.size() <= MaxContextBytes {
				size += e.size()
				entries = append(entries, e)
				continue
			}
		}
		if err := p.fence(ctx, name); err != nil {
			return nil, fmt.Errorf("export the context: %w", err)
		}
	}
	return encode(entries), nil
}

// Import takes over a context that another process has exported, beside what this one knows already: what is done from
// now on comes after what the other one did before the export. Each service that the context names must be registered
// here, as a Carrier. The error is ErrContext for bytes that are no context, and ErrNotRegistered; the process is then
// as before. If a service refuses its part, the process may know a part of the context.
func (p *Process) Import(ctx context.Context, exported []byte) error {
	entries, err := decode(exported)
	if err != nil {
		return fmt.Errorf("import a context: %w", err)
	}
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("import a context: %w", err)
	}
	defer p.turn.Release(1)
	for _, e := range entries {
		a := p.access(e.name)
		if a == nil {
			return fmt.Errorf("import a context: service %q: %w; register it first", e.name, ErrNotRegistered)
		}
		if _, ok := a.service.(Carrier); !ok {
			return fmt.Errorf("import a context: service %q has no ImportContext; register one that is a Carrier",
				e.name)
		}
	}
	for _, e := range entries {
		a := p.access(e.name)
		if err := a.service.(Carrier).ImportContext(e.past); err != nil {
			return fmt.Errorf("import a context: service %q: %w", e.name, err)
		}
		p.use(a, 0)
	}
	return nil
}

// Version is larger whenever this process has begun or ended an operation, or taken over a context. While it stays the
// same, whoever was told everything knows everything.
func (p *Process) Version() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock
}

func (p *Process) access(name string) *access {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.services[name]
}

// use notes that a service's order has been added to, and that there is one operation more or less under way. It is
// called when an operation begins, since it may have an effect even if it fails, and again when it ends, since a fence
// in between need not cover it.
func (p *Process) use(a *access, running int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock++
	a.used = p.clock
	a.running += running
}

// unfenced lists the services that were used since their last fence, sorted.
func (p *Process) unfenced() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.services)) {
		if p.services[name].used > 0 {
			names = append(names, name)
		}
	}
	return names
}

// fence issues the fence of one service. What used it meanwhile stays to be fenced. The caller has the turn.
func (p *Process) fence(ctx context.Context, name string) error {
	p.mu.Lock()
	a := p.services[name]
	used := a.used
	p.mu.Unlock()
	if err := a.service.Fence(ctx); err != nil {
		return fmt.Errorf("fence service %q: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// An operation under way notes its use again when it ends.
	if a.used == used {
		a.used = 0
	}
	return nil
}
