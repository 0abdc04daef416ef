package directed

import (
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// AskedAgain makes a schedule in which members ask again long before they could have been answered, so that answers to
// earlier questions come all the time. Clients at all sites work on two keys, in rounds: what they write in one has
// timestamps that are the same, or nearly so.
func AskedAgain(seed uint64, options schedule.Options) schedule.Schedule {
	const rounds = 20
	draw := kernel.NewStream(seed, kernel.ForSchedule, 36)
	s, n, trip := near(draw, seed, "asked-again", options)
	s.Environment.Retry = draw.Between(trip/12, trip/2)
	script := scriptOf(draw, options)
	script.Keys, script.Reads = 2, 400
	apart := draw.Between(trip/8, trip)
	for home := range n {
		c := schedule.Plan{Home: home}
		for round := range time.Duration(rounds) {
			at := 50*time.Millisecond + round*apart + draw.Between(0, apart/8)
			c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: script.Operation()})
		}
		s.Clients = append(s.Clients, c)
	}
	s.Settle = 50*time.Millisecond + rounds*apart + 4*trip
	late := faults.Fault{Kind: faults.Reorder, Everywhere: true, At: time.Millisecond, For: s.Settle}
	lost := late
	lost.Kind = faults.Loss
	late.Rate, late.Size = draw.Below(500), draw.Between(trip/8, trip)
	lost.Rate = []int{0, 50, 200}[draw.Below(3)]
	s.Faults = []faults.Fault{late, lost}
	return s
}
