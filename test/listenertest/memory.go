// Package listenertest has Stores in memory and helpers, for tests of listeners and of their clients.
package listenertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Memory is a linearizable store of one process. Operations take effect atomically, some time between
// Submit and their answer. RMWs with an ID are executed once.
type Memory struct {
	// Delay is how long an operation takes; with Shuffle, at most: answers come out of order then.
	Delay   time.Duration
	Shuffle bool
	// NoRMW makes rmws Unsupported, as under ABD.
	NoRMW bool
	// Regular makes it one whose regular reads all say that a quorum may not hold what they read, and which takes
	// operations that come after such reads, as under GryffRSC. They get no older values for that: a test looks at what
	// is submitted.
	Regular bool
	// Intercept, if set, sees each operation first and may answer it instead: take effect says whether
	// the operation takes effect all the same. It must be safe for concurrent use.
	Intercept func(op register.Operation) (result register.Result, effect, intercepted bool)
	// Limits bound what rmws may produce; zero: the default ones.
	Limits register.Limits

	mu        sync.Mutex
	values    map[string]register.Versioned
	executed  map[register.ID]register.Result
	functions *register.Registry
	submitted []register.Operation
}

// Submit carries out op.
func (m *Memory) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	m.mu.Lock()
	m.submitted = append(m.submitted, op)
	m.mu.Unlock()
	answer := func() { done(m.answer(op)) }
	delay := m.Delay
	if m.Shuffle && delay > 0 {
		delay = rand.N(delay)
	}
	if delay > timeout {
		time.AfterFunc(timeout, func() { done(register.Result{Status: register.Unavailable, Message: "too slow"}) })
		return
	}
	if delay > 0 {
		time.AfterFunc(delay, answer)
		return
	}
	go answer()
}

// Submitted is every operation so far, in order.
func (m *Memory) Submitted() []register.Operation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]register.Operation(nil), m.submitted...)
}

// Value is what a key holds now.
func (m *Memory) Value(key string) register.Value {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key].Value
}

func (m *Memory) answer(op register.Operation) register.Result {
	if m.Intercept != nil {
		if result, effect, intercepted := m.Intercept(op); intercepted {
			if effect {
				m.execute(op)
			}
			return result
		}
	}
	return m.execute(op)
}

func (m *Memory) execute(op register.Operation) register.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]register.Versioned{}
		m.executed = map[register.ID]register.Result{}
		m.functions = register.NewRegistry()
	}
	if m.Limits == (register.Limits{}) {
		m.Limits = register.DefaultLimits()
	}
	if err := m.checkAfter(op.After); err != nil {
		return register.Result{Status: register.Invalid, Message: err.Error()}
	}
	now := m.values[op.Key]
	switch op.Kind {
	case register.Fence:
		return register.Result{Status: register.OK, RoundTrips: min(len(op.After), 1)}
	case register.Read:
		return register.Result{Status: register.OK, Value: now.Value, Carstamp: now.Carstamp, RoundTrips: 1, Fast: true,
			Depends: m.Regular && op.Regular && !now.Carstamp.IsZero()}
	case register.Write:
		next := register.Carstamp{Timestamp: now.Carstamp.Timestamp + 1, Writer: 1}
		m.values[op.Key] = register.Versioned{Carstamp: next, Value: op.Value}
		return register.Result{Status: register.OK, Carstamp: next, RoundTrips: 2}
	}
	if m.NoRMW {
		return register.Result{Status: register.Unsupported, Message: "it has no read-modify-writes"}
	}
	id := register.ID{Session: op.ID.Session, Number: op.ID.Number}
	if id.Session != 0 {
		if result, ok := m.executed[id]; ok {
			return result
		}
	}
	call := op.Call
	call.MaxValueBytes = m.Limits.ValueBytes
	result := register.Result{Status: register.OK, Carstamp: now.Carstamp, RoundTrips: 2}
	outcome, err := m.functions.Apply(now.Value, call)
	switch {
	case err != nil:
		result.Status, result.Message = register.Invalid, err.Error()
	case outcome.Refused != "":
		result.Status, result.Message = register.Failed, outcome.Refused
	default:
		result.Value = outcome.Reply
		if outcome.Changed {
			result.Carstamp = now.Carstamp.Next()
			m.values[op.Key] = register.Versioned{Carstamp: result.Carstamp, Value: outcome.Next}
		}
	}
	if id.Session != 0 {
		m.executed[id] = result
	}
	return result
}

// checkAfter refuses what a replica refuses of what an operation comes after.
func (m *Memory) checkAfter(after []register.Dependency) error {
	switch n := len(after); {
	case n > 0 && !m.Regular:
		return errors.New("after is set, and this store is linearizable")
	case n > register.MaxDependencies:
		return fmt.Errorf("after has %d dependencies, over %d", n, register.MaxDependencies)
	}
	for i := range after {
		if err := after[i].Check(m.Limits); err != nil {
			return err
		}
	}
	return nil
}

// LoseWrites is an Intercept of a store that acknowledges every write, and carries out none.
func LoseWrites(op register.Operation) (result register.Result, effect, intercepted bool) {
	return register.Result{Status: register.OK}, false, op.Kind == register.Write
}
