package simulator

import (
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

func drawBurst(seed uint64) schedule.Schedule {
	return schedule.Burst(seed, curp.Definition.Partitioned)
}

func drawTakenBack(seed uint64) schedule.Schedule {
	return schedule.TakenBack(seed, curp.Definition.Partitioned)
}

func drawLeases(seed uint64) schedule.Schedule {
	return schedule.Leases(seed, curp.Definition.Partitioned)
}

func drawCopyBurst(kind faults.Kind) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule {
		return schedule.CopyBurst(seed, curp.Definition.Partitioned, kind)
	}
}

func drawLeaderLoss(seed uint64) schedule.Schedule {
	return schedule.LeaderLoss(seed, schedule.Options{RMWs: 500})
}
