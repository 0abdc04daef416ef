// Package clients is the clients of a simulated run: each has one operation in progress, asks the member at its site
// first and another one after a failure, and remembers as a session what its operations depend on. What all of them saw
// is the history that is judged.
package clients

import (
	"time"

	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/network"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Store is what clients ask. Its members are named by position.
type Store interface {
	Serving(site int) int                          // the member that the clients of a site ask first
	Next(member int) int                           // the member that they ask after one that failed
	Request(member int, c *Client, attempt uint32) // the arrival of an attempt at a member
}

// Population is all clients of a run, and what they saw.
type Population struct {
	*kernel.Kernel
	env     *schedule.Environment
	network *network.Network
	store   Store
	diagram *diagram.Diagram

	All      []*Client
	Recorder *history.Recorder
	Answered int               // operations that were answered for good
	Messages []history.Message // that sessions sent each other
	Fences   []history.Fence
}

// New makes one without clients.
func New(k *kernel.Kernel, env *schedule.Environment, n *network.Network, s Store, d *diagram.Diagram) *Population {
	return &Population{
		Kernel: k, env: env, network: n, store: s, diagram: d, Recorder: history.NewRecorder(func() time.Duration { return k.Now }),
	}
}

// Idle reports whether no client has anything left to do, and whether one waits for an operation longer than the bound,
// counted from some time at the earliest.
func (p *Population) Idle(from, bound time.Duration) (idle, late bool) {
	idle = true
	for _, c := range p.All {
		idle = idle && c.stopped
		late = late || c.Working && p.Now > max(c.since, from)+bound
	}
	return idle, late
}
