package directed

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
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

// near begins a schedule of members near each other, with as many as the options say, or three or five, and says how
// many, and how long a round trip to disks and back takes. Members retransmit after that.
func near(draw kernel.Stream, seed uint64, name string, options schedule.Options) (
	s schedule.Schedule, n int, trip time.Duration,
) {
	sizes := options.Members
	if len(sizes) == 0 {
		sizes = threeOrFive
	}
	n = sizes[draw.Below(len(sizes))]
	env := drawNear(draw, name, n)
	trip = 40*time.Millisecond + 4*env.Slowest()
	env.Retry, env.Suspect, env.Patience = trip, 3*trip, 12*trip
	return schedule.Schedule{Seed: seed, Environment: env, Abandon: 100}, n, trip
}

// scriptOf is what clients do, as the options say.
func scriptOf(draw kernel.Stream, options schedule.Options) *schedule.Script {
	script := schedule.NewScript(draw, options.RMWs)
	script.Idempotent, script.Large = options.Idempotent, options.Large
	return script
}

// readEverywhere adds a client at each site, which reads keys of a script from a time on, until the schedule is over.
func readEverywhere(s *schedule.Schedule, draw kernel.Stream, script *schedule.Script, from, least, most time.Duration) {
	for home := range s.Environment.Network.Sites {
		work(s, draw, home, from, s.Settle, least, most, func() register.Operation {
			return register.Operation{Kind: register.Read, Key: script.Operation().Key}
		})
	}
}

// ofSize is the schedule of a seed with one of some numbers of sites: of those drawn from seeds behind it, 2^32 apart,
// the first. Nil are all numbers.
func ofSize(sizes []int, seed uint64, draw func(seed uint64) schedule.Schedule) schedule.Schedule {
	s := draw(seed)
	for again := uint64(1); sizes != nil && !slices.Contains(sizes, len(s.Environment.Network.Sites)); again++ {
		s = draw(seed + again<<32)
	}
	s.Seed = seed
	return s
}

// work adds a client at a site, which does what comes next from a time to another one, at times drawn apart.
func work(s *schedule.Schedule, draw kernel.Stream, home int, from, until, least, most time.Duration,
	next func() register.Operation,
) {
	c := schedule.Plan{Home: home}
	for at := from; at < until; at += draw.Between(least, most) {
		c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: next()})
	}
	s.Clients = append(s.Clients, c)
}

// reading is what a script does, where so many of 1000 operations are reads instead.
func reading(draw kernel.Stream, script *schedule.Script, perMille int) func() register.Operation {
	return func() register.Operation {
		op := script.Operation()
		if draw.Chance(perMille) {
			op = register.Operation{Kind: register.Read, Key: op.Key}
		}
		return op
	}
}

// powerFails has all members but the first lose their power at a time, for no longer than another one.
func powerFails(s *schedule.Schedule, draw kernel.Stream, at, most time.Duration, rate int) {
	for other := 1; other < len(s.Environment.Network.Sites); other++ {
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Crash, Node: other, At: at, For: draw.Between(time.Millisecond, most), Rate: rate,
		})
	}
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
