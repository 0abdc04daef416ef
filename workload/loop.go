package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// Doer does operations of one client, one at a time. If it is an io.Closer, the loop closes it.
type Doer interface {
	// Do waits for the answer. What it can't tell the outcome of is register.Unknown, never an error.
	Do(ctx context.Context, op register.Operation) register.Result
}

// Site is where some of the clients are.
type Site struct {
	Name string
	// Connect makes the Doer of one client. Client numbers are from 0 and different at all sites.
	Connect func(ctx context.Context, client int) (Doer, error)
}

// Loop is a closed loop in real time: every client has one operation outstanding, and sends the next when it
// has the answer.
type Loop struct {
	Spec    Spec
	Sites   []Site
	Clients int    // at each site, at least 1
	Seed    uint64 // of the operations; their interleaving is as real as the time
	// Operations ends the run when as many have begun, Duration when it has passed; 0 is no bound, and one
	// of them must be given. Operations in flight at the end are waited for.
	Operations int64
	Duration   time.Duration
	// Every is the least time between the beginnings of two operations of a client; 0 is none.
	Every time.Duration
	// FenceEvery has every client fence after as many operations, and once at its end; 0 is never. What a fence is of
	// its Doer knows, whom it is given as an operation. The history has those that ended, the report none.
	FenceEvery int
	// Warmup leaves operations that begin earlier after the start out of the report; the history has them.
	Warmup time.Duration
	// Recorder takes the history; nil keeps none.
	Recorder *history.Recorder
	// Progress is called after every operation with what the history says of it; nil is no call. It is
	// called by several goroutines at once and holds up the caller's client.
	Progress func(history.Operation)
}

// Run connects all clients, then runs the loop until its bound or until the context ends, which is no error
// as long as operations were done. It fails if a client can't connect.
func (l Loop) Run(ctx context.Context) (*Report, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	clients, err := l.connect(ctx)
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	run := &loopRun{Loop: l, report: NewReport(), start: time.Now(), recorder: l.Recorder}
	if run.recorder == nil {
		run.recorder = history.NewStamper(nil)
	}
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() { run.client(ctx, c) })
	}
	group.Wait()
	return run.report, nil
}

func (l Loop) validate() error {
	switch {
	case len(l.Sites) == 0:
		return errors.New("closed loop: no sites; give at least one")
	case l.Clients < 1:
		return fmt.Errorf("closed loop: %d clients at each site; give at least 1", l.Clients)
	case l.Operations <= 0 && l.Duration <= 0:
		return errors.New("closed loop: no bound; give a number of operations or a duration")
	}
	return l.Spec.Validate()
}

// loopClient is one client of a loop.
type loopClient struct {
	number    int
	name      string
	site      string
	doer      Doer
	generator *Generator
}

func (c loopClient) close() {
	if closer, ok := c.doer.(io.Closer); ok {
		_ = closer.Close() // its operations are over; there is nothing left to lose
	}
}

// connect returns the clients that it has connected, also if one can't be.
func (l Loop) connect(ctx context.Context) ([]loopClient, error) {
	var clients []loopClient
	for _, site := range l.Sites {
		for range l.Clients {
			number := len(clients)
			generator, err := l.Spec.Generator(number)
			if err != nil {
				return clients, err
			}
			doer, err := site.Connect(ctx, number)
			if err != nil {
				return clients, fmt.Errorf("closed loop: connect client %d at site %s: %w", number, site.Name, err)
			}
			clients = append(clients, loopClient{
				number: number, name: fmt.Sprintf("%s-%d", site.Name, number), site: site.Name,
				doer: doer, generator: generator,
			})
		}
	}
	return clients, nil
}

// loopRun is a loop that runs.
type loopRun struct {
	Loop
	report   *Report
	start    time.Time
	recorder *history.Recorder
	begun    atomic.Int64
}

func (r *loopRun) client(ctx context.Context, c loopClient) {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(c.number)))
	pace := time.NewTimer(0)
	defer pace.Stop()
	if r.FenceEvery > 0 {
		defer r.fence(ctx, c)
	}
	for done := 0; ctx.Err() == nil; done++ {
		if r.FenceEvery > 0 && done > 0 && done%r.FenceEvery == 0 {
			r.fence(ctx, c)
		}
		if r.Every > 0 {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return
			}
			pace.Reset(r.Every)
		}
		elapsed := time.Since(r.start)
		if r.Duration > 0 && elapsed >= r.Duration {
			return
		}
		if begun := r.begun.Add(1); r.Operations > 0 && begun > r.Operations {
			return
		}
		op := c.generator.Next(rng)
		invocation := r.recorder.Invoke(c.name, c.site, op)
		result := c.doer.Do(ctx, op)
		record := invocation.Return(result)
		c.generator.Observe(op, result)
		if elapsed >= r.Warmup {
			r.report.Record(record)
		}
		if r.Progress != nil {
			r.Progress(record)
		}
	}
}

// fence has a client fence.
func (r *loopRun) fence(ctx context.Context, c loopClient) {
	end := r.recorder.Fence(c.name)
	if c.doer.Do(ctx, register.Operation{Kind: register.Fence}).Status == register.OK {
		end()
	}
}
