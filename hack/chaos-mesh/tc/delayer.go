package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/georegister/georegister/hack/chaos-mesh/netem"
)

// firstQueue is the number of the first of a namespace's queues. Those below are left to others.
const firstQueue = 7000

// maxQueues bounds how many classes of a namespace may be delayed: a prio has 16, and a pod few devices.
const maxQueues = 100

// delayer delays the packets of one network namespace.
type delayer struct {
	mu    sync.Mutex // guards all below, and the links of the trees
	trees map[string]*netem.Tree
	lines []*line
	later netem.Schedule[packet]

	clock  *clock
	sender *sender
}

// line is a queue, and what its packets go through.
type line struct {
	device string
	route  netem.Route
	queue  *queue
	number uint16
}

// packet is held in the kernel, under its number, or here, as a copy.
type packet struct {
	line *line
	id   uint32
	copy []byte
}

// serve is a delayer, from its first tree to its last.
func serve() error {
	listener, err := net.Listen("unix", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	clock, err := newClock()
	if err != nil {
		return fmt.Errorf("make a timer: %w", err)
	}
	sender, err := newSender()
	if err != nil {
		return fmt.Errorf("make a raw socket: %w", err)
	}
	d := &delayer{trees: map[string]*netem.Tree{}, clock: clock, sender: sender}
	go d.release()
	if err := watchDevices(func() { d.end(listener) }, d.devices); err != nil {
		return fmt.Errorf("watch devices: %w", err)
	}
	fmt.Println() // whoever started this waits for it
	for {
		c, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			select {} // until end has told and removed all
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		d.answer(c, listener)
	}
}

// answer carries out one call. After the last tree is gone, it ends the process.
func (d *delayer) answer(c net.Conn, listener net.Listener) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // of someone who connects and says nothing
	var args []string
	if json.NewDecoder(c).Decode(&args) != nil {
		return
	}
	a := d.do(args)
	if len(d.devices()) > 0 || !slices.Contains(args, string(netem.Del)) {
		_ = json.NewEncoder(c).Encode(a) // whoever called has gone
		return
	}
	// Who is told that all is deleted must not find this process again.
	listener.Close()
	_ = json.NewEncoder(c).Encode(a)
	d.end(listener)
}

// end removes what this process has made, and ends it.
func (d *delayer) end(listener net.Listener) {
	listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	removeRules()
	for _, l := range d.lines {
		l.log()
	}
	os.Exit(0)
}

// log writes down what a line has done, and how late packets were.
func (l *line) log() {
	links := make([]string, len(l.route.Path))
	for i, link := range l.route.Path {
		links[i] = link.String()
	}
	fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339), namespace(), l.device, l.route.Class,
		strings.Join(links, "; "))
}

// devices are those that have a tree.
func (d *delayer) devices() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.trees {
		names = append(names, name)
	}
	return names
}

// do carries out a call.
func (d *delayer) do(args []string) (a answer) {
	c, err := netem.Parse(args)
	if err != nil {
		return answer{Failed: err.Error()}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	tree := d.trees[c.Device]
	switch c.Verb {
	case netem.Show:
		for device, t := range d.trees {
			if c.Device == "" || c.Device == device {
				a.Out += t.String()
			}
		}
		return a
	case netem.Del:
		if tree == nil {
			return answer{Nothing: true}
		}
		delete(d.trees, c.Device)
	case netem.Add:
		if tree == nil {
			tree = &netem.Tree{}
			d.trees[c.Device] = tree
		}
		if err := tree.Add(c, rand.Float64); err != nil {
			return answer{Failed: err.Error()}
		}
	}
	if err := d.follow(); err != nil {
		return answer{Failed: err.Error()}
	}
	return a
}

// follow makes the queues and the rules be what the trees say. Queues come before the rules that lead to them, and go
// after them; a queue that stays keeps its packets.
func (d *delayer) follow() error {
	var lines []*line
	for device, tree := range d.trees {
		for _, route := range tree.Routes() {
			l := d.line(device, route)
			if l == nil {
				return fmt.Errorf("more than %d classes are delayed", maxQueues)
			}
			lines = append(lines, l)
		}
	}
	before := d.lines
	d.lines = lines
	if err := setRules(lines); err != nil {
		return fmt.Errorf("set nftables' rules: %w", err)
	}
	for _, l := range before {
		if !slices.Contains(lines, l) {
			l.log()
			l.queue.close() // the kernel drops what it held
		}
	}
	return nil
}

// line is the one that there is for a class of a device, or a new one.
func (d *delayer) line(device string, route netem.Route) *line {
	taken := map[uint16]bool{}
	for _, l := range d.lines {
		if l.device == device && l.route.Class == route.Class && l.route.Path[0] == route.Path[0] {
			l.route = route
			return l
		}
		taken[l.number] = true
	}
	for number := uint16(firstQueue); number < firstQueue+maxQueues; number++ {
		if taken[number] {
			continue
		}
		l := &line{device: device, route: route, number: number}
		q, err := openQueue(number, func(id uint32, content []byte) { d.arrive(l, id, content) })
		if err != nil {
			fmt.Fprintln(os.Stderr, "queue", number, err)
			continue
		}
		l.queue = q
		d.lines = append(d.lines, l)
		return l
	}
	return nil
}

// arrive takes a packet. While the kernel holds a TCP segment, it counts against its socket, which sends no more than
// two at a time then ("TCP small queues"); netem disowns what it delays, for this reason. So a segment is copied, and
// dropped at once: its connection believes that it has been sent.
func (d *delayer) arrive(l *line, id uint32, content []byte) {
	p := packet{line: l, id: id}
	if isTCP(content) {
		p.copy = content
	}
	d.mu.Lock()
	now := d.clock.now()
	due, ok := l.route.Admit(now, len(content))
	if ok && d.later.Put(due, p) {
		d.clock.wake(due)
	}
	d.mu.Unlock()
	if !ok || p.copy != nil {
		l.queue.drop(id)
	}
}

// isTCP tells whether a packet is of TCP over IPv4, and whole.
func isTCP(packet []byte) bool {
	return len(packet) >= 20 && packet[0]>>4 == 4 && packet[9] == 6 &&
		int(binary.BigEndian.Uint16(packet[2:])) == len(packet)
}

// release lets packets go when they are due.
func (d *delayer) release() {
	for {
		d.clock.wait()
		for {
			d.mu.Lock()
			now := d.clock.now()
			p, due, ok := d.later.Take(now)
			if ok {
				p.line.route.Leave(now - due)
			} else if next, waiting := d.later.Next(); waiting {
				d.clock.wake(next)
			}
			d.mu.Unlock()
			if !ok {
				break
			}
			if p.copy == nil {
				p.line.queue.accept(p.id)
			} else if err := d.sender.send(p.copy); err != nil {
				fmt.Fprintln(os.Stderr, "send a segment:", err) // as lost on the way; TCP sends it again
			}
		}
	}
}
