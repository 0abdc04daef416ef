package runtime

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed reads a clock that never goes back and also counts the time for which the machine was suspended. CURP's
// leases rest on that: Go's own monotonic clock stands still meanwhile, and a master that wakes would take an old lease
// for one that lasts.
func elapsed() time.Duration {
	var t unix.Timespec
	// Fails for unknown clocks only, and Linux has had this one since 2.6.39.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano())
}
