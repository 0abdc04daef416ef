package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// ProcessCPU is the CPU time, user and system, that a process of this machine has used so far. It fails if there is
// none of that id.
func ProcessCPU(ctx context.Context, pid int) (time.Duration, error) {
	process, err := procfs.NewProc(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return psCPU(ctx, pid)
	}
	var stat procfs.ProcStat
	if err == nil {
		stat, err = process.Stat()
	}
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
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
