package simulator

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawLeaderLoss makes a schedule in which leaders are lost with operations that only witnesses have: clients work on
// some keys, what the leader says is lost or late, and then it crashes, perhaps with its successor; then everything is
// read. A leader replicates at once, so that random schedules have few such operations.
func drawLeaderLoss(seed uint64) Schedule {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 5)
	n := 3 + 2*draw.Below(2)
	network := profile.Profile{Name: "leader-loss"}
	for a := range n {
		network.Sites = append(network.Sites, fmt.Sprint("site-", a+1))
		network.RTT = append(network.RTT, make([]time.Duration, n))
		network.RTT[a][a] = profile.Local
		for b := range a {
			rtt := draw.Between(5*ms, 30*ms)
			network.RTT[a][b], network.RTT[b][a] = rtt, rtt
		}
	}
	env := environment{
		network: network, shards: 1, jitter: 300, disks: drawDisks(draw, n), sealed: true, skewed: true, clientRTT: profile.Local,
	}
	trip := 40*ms + 4*env.slowest()
	env.retry, env.suspect, env.patience = trip, 3*trip, 12*trip
	if draw.Chance(300) {
		env.suspect = trip / 4 // leaders change while messages are under way
	}
	s := Schedule{Seed: seed, env: env, abandon: 100}
	script := newScript(draw, 500)
	script.keys = 4 + draw.Below(12)
	script.reads = 50 + draw.Below(200)
	crash := draw.Between(6*trip, 12*trip)
	at := draw.Between(trip/2, 3*trip)
	s.Faults = append(s.Faults,
		Fault{Kind: []FaultKind{Crash, Torn, Pause}[draw.Below(3)], Node: 0, At: crash, For: draw.Between(6*trip, 20*trip), Rate: []int{0, 500, 1000}[draw.Below(3)]},
		Fault{Kind: Loss, Everywhere: true, At: crash - at, For: at, Rate: 200 + draw.Below(500)})
	if draw.Chance(500) {
		s.Faults = append(s.Faults, Fault{Kind: Reorder, Everywhere: true, At: crash - at, For: at, Rate: 500, Size: 8 * trip})
	}
	if draw.Chance(400) { // the leader is heard by one other, at most
		s.Faults = append(s.Faults, Fault{Kind: Partition, Everywhere: true, At: crash - at, For: at + 8*trip, Side: 1 | uint64(draw.Below(2))<<(1+draw.Below(n-1)), OneWay: draw.Chance(500)})
	}
	if draw.Chance(400) { // all lose power
		for other := 1; other < n; other++ {
			s.Faults = append(s.Faults, Fault{Kind: Crash, Node: other, At: crash, For: draw.Between(ms, trip), Rate: 500})
		}
	}
	if draw.Chance(500) { // and its successor, perhaps before it serves
		s.Faults = append(s.Faults, Fault{Kind: Crash, Node: 1 + draw.Below(n-1), At: crash + draw.Between(3*trip, 8*trip), For: draw.Between(trip, 8*trip), Rate: 500})
	}
	for c := range 8 {
		p := Plan{Home: (c + draw.Below(2)) % n}
		for at := 3*trip + draw.Between(0, trip); at < crash+10*trip; at += draw.Between(0, trip) {
			p.Operations = append(p.Operations, Planned{at, script.operation()})
		}
		s.Clients = append(s.Clients, p)
	}
	s.Settle = crash + 25*trip
	for home := range n {
		var reads []Planned
		for at := crash; at < s.Settle; at += draw.Between(trip/4, 2*trip) {
			op := script.operation()
			reads = append(reads, Planned{at, register.Operation{Kind: register.Read, Key: op.Key}})
		}
		s.Clients = append(s.Clients, Plan{Home: home, Operations: reads})
	}
	return s
}
