package closedloop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ProcessCPU is the CPU time, user and system, that a process of this machine has used so far. It fails if there is
// none of that id.
func ProcessCPU(ctx context.Context, pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return psCPU(ctx, pid)
	}
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return parseStat(string(stat))
}

// parseStat reads utime and stime of proc_pid_stat(5). Linux reports them in hundredths of a second on every
// architecture.
func parseStat(stat string) (time.Duration, error) {
	// The command's name, in parentheses, may hold spaces and parentheses itself.
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	const utime, stime = 11, 12 // counted behind the name
	if end < 0 || len(fields) <= stime {
		return 0, fmt.Errorf("CPU time: can't read %q", stat)
	}
	var ticks int64
	for _, field := range []string{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// psCPU asks ps, where there is no /proc.
func psCPU(ctx context.Context, pid int) (time.Duration, error) {
	out, err := exec.CommandContext(ctx, "ps", "-o", "time=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: ps: %w", pid, err)
	}
	return parseClock(strings.TrimSpace(string(out)))
}

// parseClock reads [[hours:]minutes:]seconds[.hundredths].
func parseClock(text string) (time.Duration, error) {
	var total float64
	for part := range strings.SplitSeq(text, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time: can't read %q: %w", text, err)
		}
		total = 60*total + n
	}
	return time.Duration(total * float64(time.Second)), nil
}
