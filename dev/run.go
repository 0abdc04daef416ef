package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

const (
	// readyWithin bounds the start of a cluster.
	readyWithin = time.Minute
	// refreshEvery is the pause between two tables on a terminal.
	refreshEvery = time.Second
	// reportEvery is the pause between two tables elsewhere.
	reportEvery = 10 * time.Second
	prompt      = "> "
)

// Session is one run of `georegister dev`.
type Session struct {
	Options Options
	// Check runs a bounded workload and ends; nil: the session is interactive.
	Check *CheckOptions
	In    *os.File
	Out   *os.File
}

// Run runs a cluster until the user quits, the context ends, or the check is over. It returns nil if all
// members stopped in order and the check, if there was one, found the history linearizable.
func (s Session) Run(ctx context.Context) (err error) {
	if data := s.Options.Data; data != "" && alive(ctx, data) {
		return fmt.Errorf("a cluster runs in %s already; stop it, or use another --data", data)
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	screen := newScreen(s.Out)
	s.Options.Report = func(line string) { screen.print(line + "\n") }
	cluster, err := Start(s.Options)
	if err != nil {
		return err
	}
	defer func() {
		screen.close()
		screen.print("stopping all members\n")
		err = errors.Join(err, cluster.Close())
	}()
	console := NewConsole(cluster)
	control, err := serveControl(cluster.directory, console, quit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, control.close()) }()
	if err := s.ready(ctx, cluster, screen); err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // the user did not want to wait
		}
		return err
	}
	s.introduce(ctx, cluster, console, screen)
	if s.Check != nil {
		return s.check(ctx, cluster, console, screen)
	}
	s.interact(ctx, cluster, console, screen, quit)
	return nil
}

// ready waits until all members serve.
func (s Session) ready(ctx context.Context, cluster *Cluster, screen *screen) error {
	manifest := s.Options.Manifest
	screen.print(fmt.Sprintf("starting %s: protocol %s, %d members, %s\n", manifest.Name, manifest.Spec.Protocol,
		len(cluster.all()), cluster.directory.path))
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := cluster.WaitServing(ctx); err != nil {
		return fmt.Errorf("the cluster did not start: %w", err)
	}
	screen.print(fmt.Sprintf("all members serve after %.1f s\n", time.Since(start).Seconds()))
	return nil
}

// introduce says what a user has to know of the cluster, once.
func (s Session) introduce(ctx context.Context, cluster *Cluster, console *Console, screen *screen) {
	if screen.live() {
		screen.show(console.Table(ctx)) // the first table clears the terminal, so it comes before all that must be read
	}
	screen.print(addresses(cluster.Observe(ctx)))
	screen.print(notEmulated(s.Options.Manifest.Spec))
}

// addresses says where the members listen, in lines for a terminal of 80 columns.
func addresses(observations []Observation) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, o := range observations {
		_, port, _ := strings.Cut(o.Redis, ":") // redis-cli assumes the loopback interface
		fmt.Fprintf(t, "  %s\tredis-cli -p %s\tgRPC %s\thttp://%s/metrics\n", o.Label, port, o.GRPC, o.HTTP)
	}
	_ = t.Flush() // to memory
	return b.String()
}

// interact shows the table and takes commands until the user quits.
func (s Session) interact(ctx context.Context, cluster *Cluster, console *Console, screen *screen, quit func()) {
	every := reportEvery
	if screen.live() {
		every = refreshEvery
	}
	screen.print("`help` lists the commands; other shells: `georegister dev COMMAND`; Ctrl-C stops\n")
	typed := term.IsTerminal(int(s.In.Fd())) // asked here, since the prompt may outlive the session and its input
	go s.prompt(ctx, console, screen, typed, quit)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		lines := console.Table(ctx)
		if ctx.Err() != nil {
			return
		}
		if screen.live() {
			screen.show(lines)
		} else {
			screen.print(strings.Join(lines, "\n") + "\n")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// prompt carries out what is typed. The end of the input ends the session only where somebody typed it.
// It may go on to wait for a line when the session has ended; the process then ends too.
func (s Session) prompt(ctx context.Context, console *Console, screen *screen, typed bool, quit func()) {
	ask := func() {
		if typed {
			screen.print(prompt)
		}
	}
	lines := bufio.NewScanner(io.Reader(s.In))
	for ask(); lines.Scan(); ask() {
		text, err := console.Execute(ctx, lines.Text())
		switch {
		case errors.Is(err, ErrQuit):
			quit()
			return
		case err != nil:
			screen.print(err.Error() + "\n")
		case text != "":
			screen.print(text + "\n")
		}
	}
	if typed {
		quit()
	}
}
