package main

import (
	"fmt"
	"io"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator"
)

// progress tells now and then how far an experiment is.
func progress(out io.Writer, duration time.Duration) func(time.Duration, int) {
	told := time.Now()
	return func(now time.Duration, operations int) {
		if time.Since(told) < tellEvery {
			return
		}
		told = time.Now()
		fmt.Fprintf(out, "%v of %v of virtual time, %d operations\n", now.Round(time.Second), duration, operations)
	}
}

// checkExperiment refuses what is beyond the bounds of an experiment, and names the flag that is wrong.
func checkExperiment(x simulator.Experiment) error {
	switch conflict := x.Workload.Conflict; {
	case x.Think < 0:
		return fmt.Errorf("--think: %v; a client rests for 0 or longer", x.Think)
	case x.Sync < 0 || x.Sync > maxRTT:
		return fmt.Errorf("--fsync: %v; give 0 to %v", x.Sync, maxRTT)
	case !(conflict >= 0 && conflict <= 1): // also what is not a number
		return fmt.Errorf("--conflict: %v is no probability; give 0 to 1, such as 0.02 for 2%%", conflict)
	case x.Network.Largest() > maxRTT:
		return fmt.Errorf("--rtt: the longest round trip is %v; give at most %v", x.Network.Largest(), maxRTT)
	case x.Clients < 1:
		return fmt.Errorf("--clients: %d clients at each site; give at least 1", x.Clients)
	case x.Clients > maxClients:
		return fmt.Errorf("--clients: %d clients at each site; give at most %d", x.Clients, maxClients)
	case x.Workload.ValueBytes < 0, x.Workload.ValueBytes > register.DefaultLimits().ValueBytes:
		return fmt.Errorf("--value-bytes: %d; give 0 to %d", x.Workload.ValueBytes, register.DefaultLimits().ValueBytes)
	case x.Duration > maxDuration:
		return fmt.Errorf("--duration: %v of virtual time; give at most %v: what all clients saw is held in memory, "+
			"and figures settle within minutes", x.Duration, maxDuration)
	}
	if err := x.Workload.Validate(); err != nil {
		return fmt.Errorf("--value-bytes with this --workload: %w", err)
	}
	return nil
}
