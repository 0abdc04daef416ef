package operation

import (
	"cmp"
	"net"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// DefaultMemory is Options.Memory's limit if nothing is said, in bytes.
const DefaultMemory = 256 << 20

// Memory bounds what the clients of a member can make its listeners hold, over all of their connections: what they sent
// and is not answered, unfinished commands and messages among it, and replies that they have not taken. Over the limit,
// connections are closed, the one that holds most first, until the others are within it; and no more is read from
// anyone before it is true.
type Memory struct {
	limit   int64
	log     *zap.Logger
	metrics *Metrics

	over     atomic.Bool // used is over the limit
	mu       sync.Mutex
	freed    sync.Cond
	used     int64 // what all accounts hold
	leaving  int64 // of that, what those hold that are closed
	accounts map[*Account]struct{}
}

// NewMemory returns a bound of so many bytes for all listeners that are given it. Metrics and log may be nil.
func NewMemory(limit int64, metrics *Metrics, log *zap.Logger) *Memory {
	m := &Memory{
		limit: limit, metrics: cmp.Or(metrics, NewMetrics(nil)), log: cmp.Or(log, zap.NewNop()),
		accounts: map[*Account]struct{}{},
	}
	m.freed.L = &m.mu
	return m
}

// Limit is how many bytes they may hold.
func (m *Memory) Limit() int64 { return m.limit }

// Used is how many bytes the clients' connections hold.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Account counts the memory that one connection holds. It is rounded up, so that small changes cost nothing. Only Wait
// may be called by two goroutines at a time.
type Account struct {
	memory   *Memory
	listener string
	client   net.Addr
	close    func() // ends the connection, also while it waits

	held    int64       // the bytes that it holds
	charged int64       // the same in steps of grain; also under memory's lock
	leaving atomic.Bool // the connection is closed; set under memory's lock
	ended   bool        // the connection is over; what is held is of operations that go on
}

// grain is in which steps connections are charged, in bytes.
const grain = 16 << 10

// Open returns the account of a new connection of a client to a listener. Close is called to evict the client; it may
// be called while the connection waits, and from another goroutine.
func (m *Memory) Open(listener string, client net.Addr, close func()) *Account {
	a := &Account{memory: m, listener: listener, client: client, close: close}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts[a] = struct{}{}
	return a
}

// Hold notes that the connection holds n bytes more, or less. It does not wait.
func (a *Account) Hold(n int) {
	a.held = max(0, a.held+int64(n))
	steps := (a.held + grain - 1) / grain * grain
	if steps <= a.charged && a.charged-steps <= 2*grain && !a.ended {
		return
	}
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.charge(a, steps)
}

// End notes that the connection is over, and that operations of it that go on hold so many bytes.
func (a *Account) End(held int) {
	m := a.memory
	m.mu.Lock()
	a.ended = true
	m.leave(a)
	m.mu.Unlock()
	a.held = int64(held)
	a.Hold(0)
}

// charge is called under the lock.
func (m *Memory) charge(a *Account, held int64) {
	change := held - a.charged
	a.charged = held
	m.used += change
	m.metrics.memory.Set(float64(m.used))
	if a.leaving.Load() {
		m.leaving += change
	}
	if a.ended && held == 0 {
		delete(m.accounts, a)
	}
	if over := m.used > m.limit; over != m.over.Load() {
		m.over.Store(over)
		m.freed.Broadcast()
	}
	if change > 0 {
		m.evict()
	}
}

// leave notes that a connection is closed, under the lock.
func (m *Memory) leave(a *Account) {
	if !a.leaving.Load() {
		a.leaving.Store(true)
		m.leaving += a.charged
		m.freed.Broadcast() // it may wait
	}
}

// evict closes the connections that hold most until the others are within the limit, under the lock.
func (m *Memory) evict() {
	for m.used-m.leaving > m.limit {
		var largest *Account
		for a := range m.accounts {
			if !a.leaving.Load() && (largest == nil || a.charged > largest.charged) {
				largest = a
			}
		}
		if largest == nil {
			return
		}
		m.leave(largest)
		m.metrics.evicted.WithLabelValues(largest.listener).Inc()
		m.log.Warn(
			"Client disconnected: the clients of this member hold more memory than they may, and this one most of it",
			zap.String("listener", largest.listener), zap.Stringer("client", largest.client),
			zap.Int64("bytes", largest.charged), zap.Int64("clientMemory", m.limit))
		go largest.close() // which may wait for whoever holds memory now
	}
}

// Leave notes that the connection is being closed, so that it waits for nothing.
func (a *Account) Leave() {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	a.memory.leave(a)
}

// Wait returns once there is room for more, and reports whether the connection is to go on.
func (a *Account) Wait() bool {
	m := a.memory
	if !m.over.Load() {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.used > m.limit && !a.leaving.Load() {
		m.freed.Wait()
	}
	return !a.leaving.Load()
}

// Leaving reports whether the connection is being closed. It does not wait.
func (a *Account) Leaving() bool { return a.leaving.Load() }
