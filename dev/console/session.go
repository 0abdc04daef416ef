package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/georegister/georegister/dev"
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
	Options dev.Options
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
	cluster, err := dev.Start(s.Options)
	if err != nil {
		return err
	}
	defer func() {
		screen.close()
		screen.print("stopping all members\n")
		err = errors.Join(err, cluster.Close())
	}()
	r := running{Session: s, cluster: cluster, console: New(cluster), screen: screen, quit: quit}
	control, err := serveControl(cluster.Data(), r.console, quit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, control.close()) }()
	if err := r.ready(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // the user did not want to wait
		}
		return err
	}
	r.introduce(ctx)
	if s.Check != nil {
		return r.check(ctx)
	}
	r.interact(ctx)
	return nil
}

// running is a session whose cluster runs.
type running struct {
	Session
	cluster *dev.Cluster
	console *Console
	screen  *screen
	quit    func()
}

// ready waits until all members serve.
func (r running) ready(ctx context.Context) error {
	manifest := r.Options.Manifest
	r.screen.print(fmt.Sprintf("starting %s: protocol %s, %d members, %s\n", manifest.Name, manifest.Spec.Protocol,
		r.cluster.Members(), r.cluster.Data()))
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := r.cluster.WaitServing(ctx); err != nil {
		return fmt.Errorf("the cluster did not start: %w", err)
	}
	r.screen.print(fmt.Sprintf("all members serve after %.1f s\n", time.Since(start).Seconds()))
	return nil
}

// introduce says what a user has to know of the cluster, once.
func (r running) introduce(ctx context.Context) {
	if r.screen.live() {
		// The first table clears the terminal, so it comes before all that must be read.
		r.screen.show(r.console.Table(ctx))
	}
	r.screen.print(addresses(r.cluster.Observe(ctx)))
	r.screen.print(notEmulated(r.Options.Manifest.Spec))
}

// addresses says where the members listen, in lines for a terminal of 80 columns.
func addresses(observations []dev.Observation) string {
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
func (r running) interact(ctx context.Context) {
	every := reportEvery
	if r.screen.live() {
		every = refreshEvery
	}
	r.screen.print("`help` lists the commands; other shells: `georegister dev COMMAND`; Ctrl-C stops\n")
	typed := term.IsTerminal(int(r.In.Fd())) // asked here, since the prompt may outlive the session and its input
	go r.prompt(ctx, typed)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		lines := r.console.Table(ctx)
		if ctx.Err() != nil {
			return
		}
		if r.screen.live() {
			r.screen.show(lines)
		} else {
			r.screen.print(strings.Join(lines, "\n") + "\n")
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
func (r running) prompt(ctx context.Context, typed bool) {
	ask := func() {
		if typed {
			r.screen.print(prompt)
		}
	}
	lines := bufio.NewScanner(r.In)
	for ask(); lines.Scan(); ask() {
		text, err := r.console.Execute(ctx, lines.Text())
		switch {
		case errors.Is(err, ErrQuit):
			r.quit()
			return
		case err != nil:
			r.screen.print(err.Error() + "\n")
		case text != "":
			r.screen.print(text + "\n")
		}
	}
	if typed {
		r.quit()
	}
}
