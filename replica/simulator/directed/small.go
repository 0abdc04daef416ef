package directed

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// drawNear makes an environment of so many sites near each other.
func drawNear(draw kernel.Stream, name string, n int) schedule.Environment {
	return schedule.Environment{
		Network: schedule.DrawNetwork(draw, name, n, 5*time.Millisecond, 30*time.Millisecond), Shards: 1, Jitter: 300,
		Disks: schedule.DrawDisks(draw, n), Sealed: true, Skewed: true, ClientRTT: profile.Local,
	}
}

// readEverywhere adds a client at each site, which reads keys of a script from a time on, until the schedule is over.
func readEverywhere(s *schedule.Schedule, draw kernel.Stream, script *schedule.Script, from, least, most time.Duration) {
	for home := range s.Environment.Network.Sites {
		var reads []schedule.Planned
		for at := from; at < s.Settle; at += draw.Between(least, most) {
			op := script.Operation()
			reads = append(reads, schedule.Planned{At: at, Operation: register.Operation{Kind: register.Read, Key: op.Key}})
		}
		s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: reads})
	}
}

// ofFive is the schedule of a seed with five sites: of those drawn from seeds behind it, 2^32 apart, the first.
func ofFive(seed uint64, draw func(seed uint64) schedule.Schedule) schedule.Schedule {
	s := draw(seed)
	for again := uint64(1); len(s.Environment.Network.Sites) != 5; again++ {
		s = draw(seed + again<<32)
	}
	s.Seed = seed
	return s
}

// Pentagon is five members as far from each other, with disks and clients that lose no time.
func Pentagon(seed uint64) (schedule.Schedule, kernel.Stream) {
	const ms = time.Millisecond
	network := profile.Profile{Name: "pentagon", Sites: []string{"a", "b", "c", "d", "e"}}
	for a := range 5 {
		network.RTT = append(network.RTT, slices.Repeat([]time.Duration{20 * ms}, 5))
		network.RTT[a][a] = profile.Local
	}
	return schedule.Schedule{Seed: seed, Environment: schedule.Environment{
		Network: network, Shards: 1, Jitter: 100, Disks: slices.Repeat([]schedule.Window{{Low: 100 * time.Microsecond, High: 500 * time.Microsecond}}, 5),
		Sealed: true, Shuffled: true, Retry: 30 * ms, Suspect: 90 * ms, ClientRTT: profile.Local, Patience: 2 * time.Second,
	}}, kernel.NewStream(seed, kernel.ForSchedule, 3)
}

// Triangle is three members, the first two near each other, with a client for each operation.
func Triangle(seed uint64) (schedule.Schedule, kernel.Stream) {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 2)
	network := profile.Profile{Name: "triangle", Sites: []string{"a", "b", "c"}, RTT: [][]time.Duration{
		{profile.Local, 20 * ms, 22 * ms}, {20 * ms, profile.Local, 22 * ms}, {22 * ms, 22 * ms, profile.Local},
	}}
	return schedule.Schedule{Seed: seed, Environment: schedule.Environment{
		Network: network, Shards: 1, Jitter: 100, Disks: slices.Repeat([]schedule.Window{{Low: 100 * time.Microsecond, High: 500 * time.Microsecond}}, 3),
		Sealed: true, Retry: 30 * ms, Suspect: 60 * ms, ClientRTT: profile.Local, Patience: time.Second,
	}}, draw
}

// Plan adds a client at a site that has one operation of one key, which is the same for all.
func Plan(s *schedule.Schedule, home int, at time.Duration, op register.Operation) {
	op.Key = schedule.MixedPrefix + "0"
	s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{{At: at, Operation: op}}})
}
