package simulator

import (
	"github.com/georegister/georegister/test/mutants"

	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// drawFence makes a schedule in which a lost disk matters: of five members, a writer's near one acknowledges and
// loses its disk, and joins again among members that the write did not reach; then the writer meets one of
// those, and readers the newcomer. Who is who is fixed by distance; when things happen is drawn. Random schedules
// come to this too seldom.
func drawFence(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 1)
	network := profile.Profile{Name: "fence"}
	for a := range 5 {
		network.Sites = append(network.Sites, string(rune('a'+a)))
		network.RTT = append(network.RTT, slices.Repeat([]time.Duration{draw.Between(15*ms, 30*ms)}, 5))
		network.RTT[a][a] = profile.Local
	}
	network.RTT[0][1], network.RTT[1][0] = 4*ms, 4*ms
	s := schedule.Schedule{Seed: seed, Environment: schedule.Environment{
		Network: network, Shards: 1, Jitter: 100, Disks: slices.Repeat([]schedule.Window{{Low: 100 * time.Microsecond, High: 500 * time.Microsecond}}, 5),
		Sealed: true, Retry: 70 * ms, Suspect: 200 * ms, ClientRTT: profile.Local, Patience: 2 * time.Second,
	}}
	begin := 100 * ms
	var writes []schedule.Planned
	for i := range 3 {
		writes = append(writes, schedule.Planned{At: begin + time.Duration(i)*ms, Operation: register.Operation{
			Kind: register.Write, Key: schedule.MixedPrefix + string(rune('0'+i)), Value: register.Value("new"),
		}})
	}
	for _, w := range writes { // each by a client of its own: one of them is at the right point
		s.Clients = append(s.Clients, schedule.Plan{Home: 0, Operations: []schedule.Planned{w}})
	}
	cut := begin + draw.Between(15*ms, 50*ms)
	joined := cut + draw.Between(150*ms, 250*ms)
	end := joined + 500*ms
	for _, home := range []int{3, 4} {
		for _, w := range writes {
			var reads []schedule.Planned
			for at := joined + draw.Between(50*ms, 150*ms); at < end; at += 60 * ms {
				reads = append(reads, schedule.Planned{At: at, Operation: register.Operation{Kind: register.Read, Key: w.Operation.Key}})
			}
			s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: reads})
		}
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: joined - cut, Side: 1 << 0, Rate: 1000},
		{Kind: faults.Wipe, Node: 1, At: cut + draw.Between(0, 5*ms), For: ms},
		{Kind: faults.Partition, Everywhere: true, At: joined, For: end - joined, Side: 1<<0 | 1<<2},
	}
	s.Settle = end
	return s
}

func TestLostDisksAreFenced(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, c := range []struct {
		name    string
		inner   member.Factory
		mutants []string
	}{
		{"ABD", abd.Factory, []string{"quorum/count-dead-disks", "member/keep-incarnation"}},
		{"Gus", gus.Factory, []string{"quorum/count-dead-disks", "member/keep-incarnation"}},
		{"RMWPaxos", rmwpaxos.Factory, []string{"rmwpaxos/count-dead-disks", "member/keep-incarnation"}},
	} {
		t.Run(c.name, func(t *testing.T) { mustNotFind(t, drawFence, Member(c.inner), 500) })
		for _, mutant := range c.mutants {
			program.Run(t, c.name+", "+mutant, mutant, func(t *testing.T) {
				mustFind(t, drawFence, Member(c.inner), 0, 500, found(check.Violation))
			})
		}
	}
}
