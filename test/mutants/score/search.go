package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/test/mutants"
)

// How much a process may take. A schedule takes milliseconds: one that does not end within patience never will.
const (
	patience      = 2 * time.Minute
	memoryKiB     = 4 << 20 // of addresses, most of which are never used
	collectAt     = "GOMEMLIMIT=1500MiB"
	seldomCollect = "GOGC=400"
)

// verdict is what came of a part of a search.
type verdict struct {
	how       string // empty: nothing was found
	reason    string // for people
	schedules int    // that were run, with the one that went wrong
	seed      int    // of that one; 0: it is not known
}

var (
	failure = regexp.MustCompile(`(?m)^(?:Error: |georegister: )?seed (\d+): ([a-z]+): (.*)$`)
	crash   = regexp.MustCompile(`(?m)^(?:\tpanic: |panic: |fatal error: )(.*)$`)
	refusal = regexp.MustCompile(`(?m)^georegister: (.*)$`) // to run what is right
	seeded  = regexp.MustCompile(`(?m)panic: seed (\d+): `)
	told    = regexp.MustCompile(`: (\d+) of \d+ schedules`)
)

// search runs the program with a mutant over the schedules of some seeds, one after the other.
func search(ctx context.Context, program, mutant string, h hunt, first, count int) (verdict, error) {
	arguments := append([]string{"simulate", "--shrink=false", "--seed", strconv.Itoa(first), "--soak",
		strconv.Itoa(count)}, h.arguments...)
	out, err := run(ctx, program, mutant, arguments)
	switch hung := errors.Is(err, errHung); {
	case err == nil:
		return verdict{schedules: count}, nil
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case hung:
		done := 0
		for _, m := range told.FindAllStringSubmatch(out, -1) {
			done, _ = strconv.Atoi(m[1])
		}
		return verdict{how: "hang", reason: fmt.Sprintf("a schedule does not end within %v", patience), schedules: done + 1}, nil
	}
	if m := failure.FindStringSubmatch(out); m != nil {
		return verdict{how: m[2], reason: m[3]}.at(m[1], first, count), nil
	}
	if m := crash.FindStringSubmatch(out); m != nil {
		v := verdict{how: "panic", reason: strings.TrimSpace(m[1]), schedules: count}
		if s := seeded.FindStringSubmatch(out); s != nil {
			v = v.at(s[1], first, count)
		}
		return v, nil
	}
	if m := refusal.FindStringSubmatch(out); m != nil {
		return verdict{how: "refusal", reason: m[1], schedules: 1}, nil
	}
	return verdict{}, fmt.Errorf("%s: %v: %w\n%s", mutant, arguments, err, out)
}

// at is the verdict of a seed, and of the schedules up to it.
func (v verdict) at(seed string, first, count int) verdict {
	v.schedules = count
	if n, err := strconv.Atoi(seed); err == nil && n >= first && n < first+count {
		v.schedules, v.seed = n-first+1, n
	}
	return v
}

// control runs what went wrong with a mutant without it. An error says that it goes wrong all the same: then it says
// nothing of any mutant.
func control(ctx context.Context, program string, h hunt, first int, v verdict) error {
	count := v.schedules
	if v.seed != 0 {
		first, count = v.seed, 1
	}
	as, err := search(ctx, program, "", h, first, count)
	if err == nil && as.how != "" {
		err = fmt.Errorf("the code without a mutant goes wrong too, with %v from seed %d on: %s: %s",
			h.arguments, first, as.how, as.reason)
	}
	return err
}

// errHung says that a process did not say how far it is for longer than patience.
var errHung = errors.New("it hangs")

// run runs the program, and returns what it printed.
func run(ctx context.Context, program, mutant string, arguments []string) (string, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	limited := append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memoryKiB), program}, arguments...)
	c := exec.CommandContext(ctx, "sh", limited...)
	c.Env = append(os.Environ(), mutants.Variable+"="+mutant, "GOMAXPROCS=1", collectAt, seldomCollect)
	c.WaitDelay = time.Second
	watched := &watch{}
	watched.last.Store(time.Now().UnixNano())
	c.Stdout, c.Stderr = watched, watched
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(patience / 30):
				if time.Since(time.Unix(0, watched.last.Load())) > patience {
					stop(errHung)
					return
				}
			}
		}
	}()
	err := c.Run()
	if errors.Is(context.Cause(ctx), errHung) {
		err = errHung
	}
	return watched.text.String(), err
}

// watch keeps what a process prints, and when it printed last. One goroutine writes at a time.
type watch struct {
	text bytes.Buffer
	last atomic.Int64
}

// Write implements io.Writer.
func (w *watch) Write(b []byte) (int, error) {
	w.last.Store(time.Now().UnixNano())
	return w.text.Write(b)
}
