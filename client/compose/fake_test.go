package compose

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// fakeService is a regular sequential service of one register. Versions are numbered from 1. A read may find any
// version from the newest that everyone has to see, because its write has returned or a fence says so, or that its
// session has to see, to the newest of all.
type fakeService struct {
	mu       sync.Mutex
	name     string
	newest   uint64
	everyone uint64
	fences   int
	fail     error // what fences fail with
}

// fakeSession is one process's access to it; seen is its causal past there.
type fakeSession struct {
	service *fakeService
	seen    uint64
}

func (s *fakeSession) Fence(ctx context.Context) error {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	s.service.fences++
	if s.service.fail != nil {
		return s.service.fail
	}
	s.service.everyone = max(s.service.everyone, s.seen)
	return ctx.Err()
}

// read finds the version that choose picks from the least and the most that are allowed.
func (s *fakeSession) read(choose func(least, most uint64) uint64) uint64 {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	s.seen = choose(max(s.seen, s.service.everyone), s.service.newest)
	return s.seen
}

// begin makes a version that others may see; the write returns with finish.
func (s *fakeSession) begin() uint64 {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	s.service.newest++
	return s.service.newest
}

func (s *fakeSession) finish(version uint64) {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	s.service.everyone = max(s.service.everyone, version)
	s.seen = max(s.seen, version)
}

// carried is a fakeSession whose past can be carried.
type carried struct{ *fakeSession }

func (c carried) ExportContext() ([]byte, error) {
	return binary.AppendUvarint(nil, c.seen), nil
}

func (c carried) ImportContext(past []byte) error {
	seen, size := binary.Uvarint(past)
	if size != len(past) {
		return errors.New("no version")
	}
	c.seen = max(c.seen, seen)
	return nil
}

// world is some services, whose clients are recorded.
type world struct {
	services map[string]*fakeService
	recorder *history.Recorder
	messages []history.Message
}

func newWorld(names ...string) *world {
	w := &world{services: map[string]*fakeService{}, recorder: history.NewRecorder(nil)}
	for _, name := range names {
		w.services[name] = &fakeService{name: name}
	}
	return w
}

// actor is a process in a world.
type actor struct {
	world    *world
	name     string
	sessions map[string]*fakeSession
	process  *Process // nil: nothing composes its services
}

func (w *world) actor(name string, composed, carry bool) *actor {
	a := &actor{world: w, name: name, sessions: map[string]*fakeSession{}}
	if composed {
		a.process = NewProcess()
	}
	for service := range w.services {
		s := &fakeSession{service: w.services[service]}
		a.sessions[service] = s
		if !composed {
			continue
		}
		var access Service = s
		if carry {
			access = carried{s}
		}
		if err := a.process.Register(service, access); err != nil {
			panic(err)
		}
	}
	return a
}

// start is what a client library does before each operation.
func (a *actor) start(service string) (end func()) {
	if a.process == nil {
		return func() {}
	}
	end, err := a.process.Start(context.Background(), service)
	if err != nil {
		panic(err)
	}
	return end
}

func (a *actor) read(service string, choose func(least, most uint64) uint64) uint64 {
	defer a.start(service)()
	i := a.world.recorder.Invoke(a.name, "", register.Operation{Kind: register.Read, Key: service})
	version := a.sessions[service].read(choose)
	result := register.Result{Status: register.OK, Carstamp: register.Carstamp{Timestamp: version}}
	if version > 0 {
		result.Value = value(version)
	}
	i.Return(result)
	return version
}

// write begins a write, which returns when the result is called.
func (a *actor) write(service string) (finish func()) {
	end := a.start(service)
	session := a.sessions[service]
	session.service.mu.Lock()
	version := session.service.newest + 1
	session.service.mu.Unlock()
	i := a.world.recorder.Invoke(a.name, "",
		register.Operation{Kind: register.Write, Key: service, Value: value(version)})
	if session.begin() != version {
		panic("writes begin one after the other")
	}
	return func() {
		session.finish(version)
		i.Return(register.Result{Status: register.OK, Carstamp: register.Carstamp{Timestamp: version}})
		end()
	}
}

// tell has another process know what this one knows: with a context, if there is one.
func (a *actor) tell(other *actor, withContext bool) {
	m := history.Message{From: a.name, To: other.name, Sent: a.world.now()}
	if a.process != nil && withContext {
		exported, err := a.process.Export(context.Background())
		if err == nil {
			err = other.process.Import(context.Background(), exported)
		}
		if err != nil {
			panic(err)
		}
	}
	m.Received = a.world.now()
	a.world.messages = append(a.world.messages, m)
}

// now is a reading of the recorder's clock.
func (w *world) now() (now time.Duration) {
	return w.recorder.Invoke("clock", "", register.Operation{Kind: register.Read}).
		Return(register.Result{Status: register.Unavailable}).Invoked
}

func value(version uint64) register.Value { return register.Value(fmt.Sprint(version)) }

func newer(_, most uint64) uint64  { return most }
func older(least, _ uint64) uint64 { return least }

func anyOf(rng *rand.Rand) func(least, most uint64) uint64 {
	return func(least, most uint64) uint64 { return least + rng.Uint64N(most-least+1) }
}
