package main

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
)

// garbagePercent lets the heap grow to five times what is in use between collections: a member makes little
// garbage, and most members are small beside their machine.
const garbagePercent = 400

// relaxCollector trades memory that the machine has for processor time. Above half of the machine's memory the
// collector works as hard as it must, so that the trade never leads to swapping or to being killed. What the
// environment sets in GOGC or GOMEMLIMIT stays as it is.
func relaxCollector() {
	_, percent := os.LookupEnv("GOGC")
	_, limit := os.LookupEnv("GOMEMLIMIT")
	if percent || limit {
		return
	}
	memory := machineMemory(os.ReadFile)
	if memory == 0 {
		return // nothing would bound the heap
	}
	debug.SetMemoryLimit(memory / 2)
	debug.SetGCPercent(garbagePercent)
}

// machineMemory is how many bytes this process may hope for: the machine's, or those of its container if that
// has fewer; 0 if the system does not tell (it is not Linux).
func machineMemory(read func(path string) ([]byte, error)) int64 {
	memory := int64(math.MaxInt64)
	if info, err := read("/proc/meminfo"); err == nil {
		fields := bytes.Fields(info) // MemTotal: 123 kB
		if len(fields) > 1 && string(fields[0]) == "MemTotal:" {
			if n, err := strconv.ParseInt(string(fields[1]), 10, 50); err == nil {
				memory = n << 10
			}
		}
	}
	if limit, err := read("/sys/fs/cgroup/memory.max"); err == nil { // a number, or max
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(limit)), 10, 64); err == nil {
			memory = min(memory, n)
		}
	}
	if memory == math.MaxInt64 {
		return 0
	}
	return memory
}
