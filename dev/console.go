package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	arguments string // as people are told, empty: none
	least     int    // of arguments
	most      int
	help      string
	run       func(c *Console, ctx context.Context, args []string) (string, error)
	follow    bool // it begins a change of members, a move or a split, which can be followed
}

// Action describes a command, for help texts.
type Action struct {
	Name        string
	Arguments   string // as people are told
	Least, Most int    // how many there are
	Help        string
}

// Usage is how the command is given.
func (a Action) Usage() string { return strings.TrimSpace(a.Name + " " + a.Arguments) }

// Check reports that a command can't have so many arguments.
func (a Action) Check(arguments int) error {
	if arguments < a.Least || arguments > a.Most {
		return fmt.Errorf("use: %s", a.Usage())
	}
	return nil
}

// Actions lists the commands that other shells may send.
func Actions() []Action {
	var all []Action
	for _, a := range actions() {
		all = append(all, a.describe())
	}
	return all
}

func (a action) describe() Action { return Action{a.name, a.arguments, a.least, a.most, a.help} }

// many bounds the arguments of a command that takes several.
const many = 7

func actions() []action {
	done := func(format string, args ...any) func(error) (string, error) {
		return func(err error) (string, error) { return fmt.Sprintf(format, args...), err }
	}
	return []action{
		{"kill", "SITE", 1, 1, "end the members of a site as a crash would; their disks stay (SITE/witness: a CURP witness alone)",
			func(c *Console, _ context.Context, a []string) (string, error) {
				return done("killed %s; `restart %s` brings it back", a[0], a[0])(c.cluster.Kill(a[0]))
			}, false},
		{"restart", "SITE", 1, 1, "start the members of a site on their disks; stop them first if they run",
			func(c *Console, _ context.Context, a []string) (string, error) {
				return done("restarted %s", a[0])(c.cluster.Restart(a[0]))
			}, false},
		{"wipe", "SITE", 1, 1, "kill the members of a site, lose their disks, and start them as newcomers",
			func(c *Console, _ context.Context, a []string) (string, error) {
				if c.cluster.directory.record.partitioned() { // this never changes
					return done("wiped %s; its parts go to others, and `replace %s` has a newcomer take its place", a[0], a[0])(c.cluster.Wipe(a[0]))
				}
				return done("wiped %s; it joins as a newcomer and votes when it has the others' state", a[0])(c.cluster.Wipe(a[0]))
			}, false},
		{"partition", "SITE SITE", 2, 2, "cut the links between two sites",
			func(c *Console, _ context.Context, a []string) (string, error) {
				return done("cut %s from %s; `heal` mends all links", a[0], a[1])(c.cluster.Partition(a[0], a[1]))
			}, false},
		{"heal", "", 0, 0, "mend all links", func(c *Console, _ context.Context, _ []string) (string, error) {
			return done("mended all links")(c.cluster.Heal())
		}, false},
		{"add", "SITE...", 1, many, "have a member join at each of the sites",
			func(c *Console, ctx context.Context, a []string) (string, error) { return c.cluster.Add(ctx, a...) }, true},
		{"remove", "SITE...", 1, many, "have the members of sites leave, or single ones by their name",
			func(c *Console, ctx context.Context, a []string) (string, error) { return c.cluster.Remove(ctx, a...) }, true},
		{"replace", "SITE [with SITE]", 1, 3, "have the members of a site leave, and others join there or at another one",
			(*Console).replace, true},
		{"abandon", "", 0, 0, "give up the change of members that is going on", func(c *Console, _ context.Context, _ []string) (string, error) {
			return done("giving the change up")(c.cluster.Abandon())
		}, true},
		{"move", "SHARD SITE", 2, 2, "have the master of a CURP shard be at a site, or `default`: where it is without this",
			func(c *Console, _ context.Context, a []string) (string, error) { return c.cluster.Move(a[0], a[1]) }, true},
		{"split", "", 0, 0, "have the next CURP shard in turn give half of its keys to a new one", func(c *Console, _ context.Context, _ []string) (string, error) {
			return c.cluster.Split()
		}, true},
		{"recover", "MEMBER", 1, 2, "go on with one member after the others are lost for good (CURP: all [SHARD,...], and what may be empty)",
			(*Console).recover, false},
		{"status", "", 0, 0, "show the sites, their ports and how they are doing", (*Console).status, false},
		{"quit", "", 0, 0, "stop all members in order and leave", func(*Console, context.Context, []string) (string, error) {
			return "stopping", ErrQuit
		}, false},
	}
}

// replace takes `va`, `va jp` and `va with jp`.
func (c *Console) replace(ctx context.Context, a []string) (string, error) {
	if len(a) == 3 && strings.EqualFold(a[1], "with") {
		a = []string{a[0], a[2]}
	}
	switch len(a) {
	case 1:
		return c.cluster.Replace(ctx, a[0], "")
	case 2:
		return c.cluster.Replace(ctx, a[0], a[1])
	}
	return "", errors.New("use: replace SITE [with SITE]")
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
		if err := a.describe().Check(len(words) - 1); err != nil {
			return "", err
		}
		return a.run(c, ctx, words[1:])
	}
	return "", fmt.Errorf("unknown command %q; `help` lists the commands", words[0])
}

// Follow writes how the change, the move or the split that a line began is going, until it is over or the context ends.
// Of another line there is nothing to follow.
func (c *Console) Follow(ctx context.Context, line string, write func(string)) error {
	name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch name {
	case "move":
		return c.cluster.FollowMove(ctx, strings.Fields(arguments)[0], write)
	case "split":
		return c.cluster.FollowSplit(ctx, write)
	}
	if !slices.ContainsFunc(actions(), func(a action) bool { return a.name == name && a.follow }) {
		return nil
	}
	return c.cluster.Follow(ctx, write)
}

// Help lists the commands.
func Help() string {
	var b strings.Builder
	for _, a := range actions() {
		fmt.Fprintf(&b, "%-25s %s\n", a.describe().Usage(), a.help)
	}
	fmt.Fprintf(&b, "%-25s %s", "help", "this list")
	return b.String()
}

// status is the table, with what happened lately: since the tables that this console made before.
func (c *Console) status(ctx context.Context, _ []string) (string, error) {
	return strings.Join(c.table(ctx, 0), "\n"), nil
}

// maxRows is how many partitions a table that stays on the screen has, to leave room for the rest.
const maxRows = 8

// Table observes the cluster and renders it, as far as it fits.
func (c *Console) Table(ctx context.Context) []string { return c.table(ctx, maxRows) }

func (c *Console) table(ctx context.Context, partitions int) []string {
	observations := c.cluster.Observe(ctx)
	v, label, waiting := c.cluster.partitions()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	lines := c.rates.Table(observations, now)
	lines = append(lines, c.rates.Partitions(v, label, observations, partitions, now)...)
	if waiting != "" {
		lines = append(lines, "waiting: "+waiting)
	}
	for _, going := range []string{c.cluster.changing(), c.cluster.dividing(observations)} {
		if going != "" {
			lines = append(lines, going)
		}
	}
	return lines
}
