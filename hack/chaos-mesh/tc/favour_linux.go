package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// favour gives the process that this thread starts next the CPU before others, for a delayer that waits for a CPU
// delays by more than it was told. It is best effort: the lag that a delayer shows says how good it was.
func favour() {
	runtime.LockOSThread()
	if realtime() == nil {
		return
	}
	// With cgroup v1, a container's group may have no share of real time, and the root has all of it. Only the CPU's
	// hierarchy is left: the process still ends with its container.
	for _, root := range []string{"/host-sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu"} {
		tasks := filepath.Join(root, "tasks")
		if os.WriteFile(tasks, []byte(strconv.Itoa(unix.Gettid())), 0o644) == nil && realtime() == nil {
			return
		}
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20); err != nil {
		fmt.Fprintln(os.Stderr, "the delayer gets no more of the CPU than others:", err)
	}
}

// realtime lets this thread run before all that are not real-time, and take turns with those that are: without turns, a
// thread that spins until another of its process goes on keeps that one from a CPU for ever.
func realtime() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
}
