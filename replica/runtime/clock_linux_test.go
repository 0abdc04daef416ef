package runtime

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func reading(t *testing.T, clock int32) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(clock, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// The clock is the one that counts suspension. In a namespace of time of their own it is a day ahead of the one that
// doesn't, as on a machine that was suspended for a day; where there may be none, the two may be the same, and less is
// shown.
func TestClockCountsSuspension(t *testing.T) {
	const inside = "GEOREGISTER_TEST_SUSPENDED"
	before, now, after := reading(t, unix.CLOCK_BOOTTIME), elapsed(), reading(t, unix.CLOCK_BOOTTIME)
	if now < before || now > after {
		t.Errorf("reads %v, between %v and %v of the clock since boot", now, before, after)
	}
	if os.Getenv(inside) != "" {
		if ahead := elapsed() - reading(t, unix.CLOCK_MONOTONIC); ahead < 24*time.Hour-time.Minute {
			t.Errorf("the machine was suspended for a day, and the clock is %v ahead", ahead)
		}
		return
	}
	if err := exec.Command("unshare", "--user", "--time", "--boottime", "86400", "true").Run(); err != nil {
		t.Skipf("no namespace of time: %v", err)
	}
	again := exec.Command("unshare", "--user", "--time", "--boottime", "86400", os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), inside+"=1")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("in a namespace of time: %v\n%s", err, out)
	}
}
