package simulator

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// drawLeaderLoss makes a schedule in which leaders are lost with operations that only witnesses have: clients work on
// some keys, what the leader says is lost or late, and then it crashes, perhaps with its successor; then everything is
// read. A leader replicates at once, so that random schedules have few such operations.
func drawLeaderLoss(seed uint64) schedule.Schedule {
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
	env := schedule.Environment{
		Network: network, Shards: 1, Jitter: 300, Disks: schedule.DrawDisks(draw, n), Sealed: true, Skewed: true, ClientRTT: profile.Local,
	}
	trip := 40*ms + 4*env.Slowest()
	env.Retry, env.Suspect, env.Patience = trip, 3*trip, 12*trip
	if draw.Chance(300) {
		env.Suspect = trip / 4 // leaders change while messages are under way
	}
	s := schedule.Schedule{Seed: seed, Environment: env, Abandon: 100}
	script := schedule.NewScript(draw, 500)
	script.Keys = 4 + draw.Below(12)
	script.Reads = 50 + draw.Below(200)
	crash := draw.Between(6*trip, 12*trip)
	at := draw.Between(trip/2, 3*trip)
	s.Faults = append(s.Faults,
		faults.Fault{Kind: []faults.Kind{faults.Crash, faults.Torn, faults.Pause}[draw.Below(3)], Node: 0, At: crash, For: draw.Between(6*trip, 20*trip), Rate: []int{0, 500, 1000}[draw.Below(3)]},
		faults.Fault{Kind: faults.Loss, Everywhere: true, At: crash - at, For: at, Rate: 200 + draw.Below(500)})
	if draw.Chance(500) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Reorder, Everywhere: true, At: crash - at, For: at, Rate: 500, Size: 8 * trip})
	}
	if draw.Chance(400) { // the leader is heard by one other, at most
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Partition, Everywhere: true, At: crash - at, For: at + 8*trip, Side: 1 | uint64(draw.Below(2))<<(1+draw.Below(n-1)), OneWay: draw.Chance(500)})
	}
	if draw.Chance(400) { // all lose power
		for other := 1; other < n; other++ {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: other, At: crash, For: draw.Between(ms, trip), Rate: 500})
		}
	}
	if draw.Chance(500) { // and its successor, perhaps before it serves
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1 + draw.Below(n-1), At: crash + draw.Between(3*trip, 8*trip), For: draw.Between(trip, 8*trip), Rate: 500})
	}
	for c := range 8 {
		p := schedule.Plan{Home: (c + draw.Below(2)) % n}
		for at := 3*trip + draw.Between(0, trip); at < crash+10*trip; at += draw.Between(0, trip) {
			p.Operations = append(p.Operations, schedule.Planned{At: at, Operation: script.Operation()})
		}
		s.Clients = append(s.Clients, p)
	}
	s.Settle = crash + 25*trip
	for home := range n {
		var reads []schedule.Planned
		for at := crash; at < s.Settle; at += draw.Between(trip/4, 2*trip) {
			op := script.Operation()
			reads = append(reads, schedule.Planned{At: at, Operation: register.Operation{Kind: register.Read, Key: op.Key}})
		}
		s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: reads})
	}
	return s
}
