package record

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
	held   []net.Listener
	avoid  []int // those of members that may be down
	viewed bool  // there is a view, which tells where members and witnesses are
}

// release lets go of all ports, for the members to listen at.
func (p *portPicker) release() {
	for _, l := range p.held {
		_ = l.Close() // it has no connections
	}
}

// take holds a port if it is free.
func (p *portPicker) take(port int) bool {
	if slices.Contains(p.avoid, port) {
		return false
	}
	l, err := net.Listen("tcp", Loopback(port))
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

const (
	// portsWithin is how long ports may take to become free that processes of a run that was killed still have.
	portsWithin = 10 * time.Second
	retryEvery  = 50 * time.Millisecond
)

// Assign gives members and witnesses their ports. Those of an earlier run are kept where they are free, and those to
// avoid are not taken. A Redis base port that is not 0 is the first member's, the others follow; it is an error if one
// is taken, or, where there is a view, a port for peers or of a witness: the view tells where they are. Those of a run
// that was killed take a moment to end.
func Assign(members []Member, witnesses []Witness, avoid []int, redisBase int, viewed bool) error {
	last := redisBase + len(members) - 1
	if redisBase != 0 && (redisBase < 1 || last > maxPort) {
		return fmt.Errorf("--redis-base-port: the ports %d to %d don't exist; give one from 1 to %d", redisBase, last,
			maxPort-len(members)+1)
	}
	for deadline := time.Now().Add(portsWithin); ; time.Sleep(retryEvery) {
		picker := portPicker{avoid: avoid, viewed: viewed}
		err := picker.assign(members, witnesses, redisBase)
		picker.release()
		if taken := (*peerPortTaken)(nil); !errors.As(err, &taken) || time.Now().After(deadline) {
			return err
		}
	}
}

// peerPortTaken is the error that processes which are about to end cause.
type peerPortTaken struct {
	port  int
	label string
}

func (e *peerPortTaken) Error() string {
	return fmt.Sprintf("port %d, where the others look for %s, is taken; stop what listens there", e.port, e.label)
}

func (p *portPicker) assign(members []Member, witnesses []Witness, redisBase int) error {
	for i := range witnesses {
		if err := p.keep(&witnesses[i].Port, witnesses[i].Site+WitnessSuffix); err != nil {
			return err
		}
	}
	next := firstRedisPort + 10*rand.IntN((firstPort-firstRedisPort)/10) // sites side by side, clusters apart
	for i := range members {
		m, label := &members[i].Ports, members[i].Label
		err := errors.Join(p.keep(&m.GRPC, ""), p.keep(&m.Peer, label), p.keep(&m.Admin, ""), p.keep(&m.HTTP, ""))
		if err == nil && members[i].Witness != 0 {
			err = p.keep(&m.Witness, label)
		}
		if err != nil {
			return err
		}
		switch {
		case redisBase != 0:
			m.Redis = redisBase + i
			if !p.take(m.Redis) {
				return fmt.Errorf("port %d for Redis at site %s is taken; choose another --redis-base-port", m.Redis,
					label)
			}
		case m.Redis != 0 && p.take(m.Redis):
		default:
			if m.Redis, err = p.from(next); err != nil {
				return err
			}
			next = m.Redis + 1
		}
	}
	return nil
}

// keep holds a port as it is if that is free, or another one instead, unless others look for somebody there.
func (p *portPicker) keep(port *int, who string) (err error) {
	switch {
	case *port != 0 && p.take(*port):
	case *port != 0 && who != "" && p.viewed:
		return &peerPortTaken{*port, who}
	default:
		*port, err = p.any()
	}
	return err
}

// Ports are those of members and witnesses, which run or may run again.
func (r *Record) Ports() (all []int) {
	for _, m := range r.Members {
		all = append(all, m.Ports.Redis, m.Ports.GRPC, m.Ports.Peer, m.Ports.Admin, m.Ports.HTTP, m.Ports.Witness)
	}
	for _, w := range r.Witnesses {
		all = append(all, w.Port)
	}
	return all
}

// Loopback is the address of a port on this machine.
func Loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
