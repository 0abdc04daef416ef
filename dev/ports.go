package dev

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// Ports are taken from below the ranges from which systems draw the local ports of outgoing connections
// (Linux: 32768, macOS: 49152), so that none of those can take the port of a member that is down.
const (
	firstRedisPort = 16000
	firstPort      = 20000
	lastPort       = 32000
	maxPort        = 1<<16 - 1
)

// portPicker hands out free ports. It holds them until release, so that none is handed out twice.
type portPicker struct {
	held  []net.Listener
	avoid []int // those of members that may be down
}

// release lets go of all ports, for the members to listen at.
func (p *portPicker) release() {
	for _, l := range p.held {
		_ = l.Close() // it has no connections
	}
	p.held = nil
}

// take holds a port if it is free.
func (p *portPicker) take(port int) bool {
	if slices.Contains(p.avoid, port) {
		return false
	}
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	p.held = append(p.held, l)
	return true
}

// from holds the first free port from a number on.
func (p *portPicker) from(port int) (int, error) {
	for ; port <= lastPort; port++ {
		if p.take(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port up to %d", lastPort)
}

// any holds a free port at random, so that clusters that start at once rarely meet.
func (p *portPicker) any() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if p.take(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

// assign gives every member its ports. Those of an earlier run are kept where they are free. A Redis base port that is
// not 0 is the first member's, the others follow; it is an error if one is taken, or a port for peers, or of a witness,
// of members that have a view: it tells where they are. Those of a run that was killed take a moment to end.
func assign(members []memberRecord, redisBase int, viewed bool) error {
	for deadline := time.Now().Add(stopWithin); ; time.Sleep(pollEvery) {
		var picker portPicker
		err := picker.assign(members, redisBase, viewed)
		if taken := (*peerPortTaken)(nil); !errors.As(err, &taken) || time.Now().After(deadline) {
			return err
		}
	}
}

// peerPortTaken is the error that members which are about to end cause.
type peerPortTaken struct {
	port  int
	label string
}

func (e *peerPortTaken) Error() string {
	return fmt.Sprintf("port %d, where the others look for %s, is taken; stop what listens there", e.port, e.label)
}

// assignMore gives newcomers ports, beside those of members and witnesses that run or may run again.
func assignMore(newcomers []memberRecord, avoid []int) error {
	picker := portPicker{avoid: avoid}
	return picker.assign(newcomers, 0, false)
}

func (p *portPicker) assign(members []memberRecord, redisBase int, viewed bool) error {
	defer p.release()
	if last := redisBase + len(members) - 1; redisBase != 0 && (redisBase < 1 || last > maxPort) {
		return fmt.Errorf("--redis-base-port: the ports %d to %d don't exist; give one from 1 to %d", redisBase, last, maxPort-len(members)+1)
	}
	next := firstRedisPort + 10*rand.IntN((firstPort-firstRedisPort)/10) // sites side by side, clusters apart
	for i := range members {
		m := &members[i].Ports
		needed := []*int{&m.GRPC, &m.Peer, &m.Admin, &m.HTTP}
		if members[i].Witness != 0 {
			needed = append(needed, &m.Witness)
		}
		for _, port := range needed {
			if *port != 0 && p.take(*port) {
				continue
			}
			if *port != 0 && (port == &m.Peer || port == &m.Witness) && viewed {
				return &peerPortTaken{*port, members[i].Label}
			}
			free, err := p.any()
			if err != nil {
				return err
			}
			*port = free
		}
		switch {
		case redisBase != 0:
			m.Redis = redisBase + i
			if !p.take(m.Redis) {
				return fmt.Errorf("port %d for Redis at site %s is taken; choose another --redis-base-port", m.Redis, members[i].Label)
			}
		case m.Redis != 0 && p.take(m.Redis):
		default:
			free, err := p.from(next)
			if err != nil {
				return err
			}
			m.Redis, next = free, free+1
		}
	}
	return nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
