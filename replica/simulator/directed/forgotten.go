package directed

import (
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// WritesForgotten makes a schedule of so many members of Gus that keep one or two undecided writes of a key, while all
// of them write and read few keys, one after the other is cut off, and messages are lost: they forget writes of which
// they have said something, and which others still ask about. With four members a majority is more than those that meet
// each majority.
func WritesForgotten(seed uint64, n int) schedule.Schedule {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 40)
	s := schedule.Schedule{Seed: seed, Environment: drawNear(draw, "forgotten", n), Abandon: 300, Settle: 1000 * ms}
	env := &s.Environment
	env.Disks = make([]schedule.Window, n)
	for i := range env.Disks {
		env.Disks[i] = schedule.Window{Low: 100 * time.Microsecond, High: ms}
	}
	env.Retry, env.Suspect, env.Patience = 20*ms+draw.Between(0, 30*ms), 150*ms, 2*time.Second
	env.Tuning.Writes = 1 + draw.Below(2)
	if draw.Chance(500) {
		env.Deadline = draw.Between(200*ms, 1000*ms)
	}
	s.Faults = []faults.Fault{{Kind: faults.Loss, Everywhere: true, For: s.Settle, Rate: 50 + draw.Below(250)}}
	for at := draw.Between(0, 100*ms); at < s.Settle-100*ms; at += draw.Between(50*ms, 200*ms) {
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Partition, Everywhere: true, At: at, For: draw.Between(30*ms, 150*ms), Side: 1 << draw.Below(n),
			Rate: draw.Below(1001), OneWay: draw.Chance(300),
		})
	}
	keys, writes := 1+draw.Below(2), 0
	for home := range n {
		for range 2 {
			work(&s, draw, home, draw.Between(0, 50*ms), s.Settle, ms, 80*ms, func() register.Operation {
				op := register.Operation{Kind: register.Read, Key: schedule.MixedPrefix + strconv.Itoa(draw.Below(keys))}
				if draw.Chance(600) {
					writes++
					op.Kind, op.Value = register.Write, register.Value(strconv.Itoa(1000*writes))
				}
				return op
			})
		}
	}
	s.SortFaults()
	return s
}
