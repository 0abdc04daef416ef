package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/georegister/georegister/workload/checked"
)

// garbagePercent lets the heap grow to five times what is in use between collections: a member makes little garbage, be
// it a simulated one, and most members are small beside their machine.
const garbagePercent = 400

// relaxCollector trades memory that the machine has for processor time. Above three quarters of the machine's memory
// the collector works as hard as it must, so that the trade never leads to swapping or to being killed. What the
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
	debug.SetMemoryLimit(memory / 4 * 3)
	debug.SetGCPercent(garbagePercent)
}

// machineMemory is how many bytes this process may hope for: the machine's, or those of its container if that
// has fewer; 0 if the system does not tell (it is not Linux).
func machineMemory(read func(path string) ([]byte, error)) int64 {
	memory := int64(math.MaxInt64)
	if info, err := read("/proc/meminfo"); err == nil {
		var kibibytes int64
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kibibytes); err == nil {
			memory = kibibytes << 10
		}
	}
	memory = min(memory, containerMemory(read))
	if memory == math.MaxInt64 {
		return 0
	}
	return memory
}

// containerMemory is the bound on this process' container; the largest number if there is none.
func containerMemory(read func(path string) ([]byte, error)) int64 {
	if limit, err := read("/sys/fs/cgroup/memory.max"); err == nil { // a number, or max
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(limit)), 10, 64); err == nil {
			return n
		}
	}
	return math.MaxInt64
}

// clientMemory is how much memory the clients of a member may take if nothing is said: a quarter of what there is, up
// to a gibibyte; 0 if the system does not tell.
func clientMemory(read func(path string) ([]byte, error)) int64 {
	return min(machineMemory(read)/4, 1<<30)
}

// cacheMemory is how much memory a member keeps records in if nothing is said: a quarter of its container's, or, where
// it may share a machine with others, a sixteenth of that, up to a gibibyte; 0 if the system does not tell.
func cacheMemory(read func(path string) ([]byte, error)) int64 {
	memory := machineMemory(read)
	if limit := containerMemory(read); limit == memory {
		return memory / 4
	}
	return min(memory/16, 1<<30)
}

const (
	// someMemory is what a tool may take where the system does not tell how much there is.
	someMemory = 4 << 30
	// watchEvery is between two looks at what a tool takes.
	watchEvery = 20 * time.Millisecond
)

// toolMemory is how many bytes a tool may take that holds a whole history: half of the machine's memory.
func toolMemory() int64 {
	if memory := machineMemory(os.ReadFile); memory > 0 {
		return memory / 2
	}
	return someMemory
}

// boundMemory returns a context that ends, beside when ctx does, soon after this process holds more than so many bytes.
// The cause says that, and what to do about it. Call stop when the bound is to hold no more.
func boundMemory(ctx context.Context, most int64, advice string) (bounded context.Context, stop func()) {
	bounded, cancel := context.WithCancelCause(ctx)
	before := debug.SetMemoryLimit(most) // what is over is collected before the bound is reached
	stack := debug.SetMaxStack(int(min(most, math.MaxInt)))
	held := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
	}
	unwatch := checked.Every(watchEvery, func(time.Duration) {
		metrics.Read(held)
		if held[0].Value.Uint64()+held[1].Value.Uint64() > uint64(most) {
			cancel(fmt.Errorf("it takes more than %s of memory: %s", quantity(most), advice))
		}
	})
	return bounded, func() {
		unwatch()
		cancel(nil)
		debug.SetMemoryLimit(before)
		debug.SetMaxStack(stack)
	}
}

// quantity is a number of bytes for people, rounded to MiB.
func quantity(bytes int64) string {
	q := resource.NewQuantity((bytes+1<<19)>>20<<20, resource.BinarySI)
	return q.String()
}
