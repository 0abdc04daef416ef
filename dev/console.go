package dev

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ErrQuit is what Execute returns for quit.
var ErrQuit = errors.New("quit")

// Console carries out the commands of the prompt and of other shells.
type Console struct {
	cluster *Cluster
	mu      sync.Mutex
	rates   *Rates
}

// NewConsole returns a console of a cluster.
func NewConsole(c *Cluster) *Console { return &Console{cluster: c, rates: NewRates()} }

// action is a command.
type action struct {
	name      string
	arguments []string // their names
	help      string
	run       func(c *Console, ctx context.Context, args []string) (string, error)
}

// Action describes a command, for help texts.
type Action struct {
	Name      string
	Arguments []string
	Help      string
}

// Actions lists the commands that other shells may send.
func Actions() []Action {
	var all []Action
	for _, a := range actions() {
		all = append(all, Action{a.name, a.arguments, a.help})
	}
	return all
}

func actions() []action {
	done := func(format string, args ...any) func(error) (string, error) {
		return func(err error) (string, error) { return fmt.Sprintf(format, args...), err }
	}
	return []action{
		{"kill", []string{"SITE"}, "end the members of a site as a crash would; their disks stay",
			func(c *Console, _ context.Context, a []string) (string, error) {
				return done("killed %s; `restart %s` brings it back", a[0], a[0])(c.cluster.Kill(a[0]))
			}},
		{"restart", []string{"SITE"}, "start the members of a site on their disks; stop them first if they run",
			func(c *Console, _ context.Context, a []string) (string, error) {
				return done("restarted %s", a[0])(c.cluster.Restart(a[0]))
			}},
		{"wipe", []string{"SITE"}, "kill the members of a site, lose their disks, and start them as newcomers",
			func(c *Console, _ context.Context, a []string) (string, error) {
				return done("wiped %s; it joins as a newcomer and votes when it has the others' state", a[0])(c.cluster.Wipe(a[0]))
			}},
		{"partition", []string{"SITE", "SITE"}, "cut the links between two sites",
			func(c *Console, _ context.Context, a []string) (string, error) {
				return done("cut %s from %s; `heal` mends all links", a[0], a[1])(c.cluster.Partition(a[0], a[1]))
			}},
		{"heal", nil, "mend all links", func(c *Console, _ context.Context, _ []string) (string, error) {
			return done("mended all links")(c.cluster.Heal())
		}},
		{"status", nil, "show the sites, their ports and how they are doing", (*Console).status},
		{"quit", nil, "stop all members in order and leave", func(*Console, context.Context, []string) (string, error) {
			return "stopping", ErrQuit
		}},
	}
}

// Execute carries out one line. A blank one does nothing. It returns ErrQuit, with a text, for quit.
func (c *Console) Execute(ctx context.Context, line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", nil
	}
	if words[0] == "help" {
		return Help(), nil
	}
	for _, a := range actions() {
		if a.name != words[0] {
			continue
		}
		if len(words)-1 != len(a.arguments) {
			return "", fmt.Errorf("use: %s", a.usage())
		}
		return a.run(c, ctx, words[1:])
	}
	return "", fmt.Errorf("unknown command %q; `help` lists the commands", words[0])
}

func (a action) usage() string { return strings.Join(append([]string{a.name}, a.arguments...), " ") }

// Help lists the commands.
func Help() string {
	var b strings.Builder
	for _, a := range actions() {
		fmt.Fprintf(&b, "%-20s %s\n", a.usage(), a.help)
	}
	fmt.Fprintf(&b, "%-20s %s", "help", "this list")
	return b.String()
}

// status is the table, with what happened lately: since the tables that this console made before.
func (c *Console) status(ctx context.Context, _ []string) (string, error) {
	return strings.Join(c.Table(ctx), "\n"), nil
}

// Table observes the cluster and renders it.
func (c *Console) Table(ctx context.Context) []string {
	observations := c.cluster.Observe(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rates.Table(observations, time.Now())
}
