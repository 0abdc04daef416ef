package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// clock is the kernel's monotonic one, with one alarm. Go's own timers are rounded to milliseconds while a program
// waits for its sockets, which is too coarse for a delay.
type clock struct{ timer int }

func newClock() (*clock, error) {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	return &clock{timer}, err
}

// now is the time since the machine's start.
func (c *clock) now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for unknown clocks only
	return time.Duration(t.Nano())
}

// wake sets the alarm, in place of what it was set to.
func (c *clock) wake(at time.Duration) {
	t := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if err := unix.TimerfdSettime(c.timer, unix.TFD_TIMER_ABSTIME, &t, nil); err != nil {
		fmt.Fprintln(os.Stderr, "set the timer:", err)
	}
}

// wait blocks until the alarm rings. It keeps a thread to itself.
func (c *clock) wait() {
	runtime.LockOSThread()
	var times [8]byte
	_, _ = unix.Read(c.timer, times[:]) // an interrupted wait is one that rang too early, which does no harm
}
