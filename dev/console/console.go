// Package console is what a person sees and types of an embedded cluster: a prompt with commands, which other shells
// may send too, a table that stays on the screen, and checks.
package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/georegister/georegister/dev"
)

// ErrQuit is what Execute returns for quit.
var ErrQuit = errors.New("quit")

// Console carries out the commands of the prompt and of other shells.
type Console struct {
	cluster *dev.Cluster
	mu      sync.Mutex
	rates   *rates
}

// New returns a console of a cluster.
func New(c *dev.Cluster) *Console { return &Console{cluster: c, rates: newRates()} }

// Action is a command, such as another shell may send.
type Action struct {
	Name        string
	Arguments   string // as the help has them, empty: none
	Least, Most int    // how many there are
	Help        string

	run func(ctx context.Context, c *Console, args []string) (string, error)
	// follow writes how the change of members, the move or the split that the command begins is going, until it is
	// over; nil: it begins none.
	follow func(ctx context.Context, c *dev.Cluster, args []string, write func(string)) error
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

// many bounds the arguments of a command that takes several.
const many = 7

// Actions lists the commands.
func Actions() []Action {
	change := func(ctx context.Context, c *dev.Cluster, _ []string, write func(string)) error {
		return c.Follow(ctx, write)
	}
	move := func(ctx context.Context, c *dev.Cluster, a []string, write func(string)) error {
		return c.FollowMove(ctx, a[0], write)
	}
	split := func(ctx context.Context, c *dev.Cluster, _ []string, write func(string)) error {
		return c.FollowSplit(ctx, write)
	}
	return []Action{
		{"kill", "SITE", 1, 1,
			"end the members of a site as a crash would; their disks stay (SITE/witness: a CURP witness alone)",
			func(_ context.Context, c *Console, a []string) (string, error) {
				return fmt.Sprintf("killed %s; `restart %s` brings it back", a[0], a[0]), c.cluster.Kill(a[0])
			}, nil},
		{"restart", "SITE", 1, 1, "start the members of a site on their disks; stop them first if they run",
			func(_ context.Context, c *Console, a []string) (string, error) {
				return fmt.Sprintf("restarted %s", a[0]), c.cluster.Restart(a[0])
			}, nil},
		{"wipe", "SITE", 1, 1, "kill the members of a site, lose their disks, and start them as newcomers",
			func(_ context.Context, c *Console, a []string) (string, error) {
				next := "it joins as a newcomer and votes when it has the others' state"
				if c.cluster.Partitioned() {
					next = fmt.Sprintf("its parts go to others, and `replace %s` has a newcomer take its place", a[0])
				}
				return fmt.Sprintf("wiped %s; %s", a[0], next), c.cluster.Wipe(a[0])
			}, nil},
		{"partition", "SITE SITE", 2, 2, "cut the links between two sites",
			func(_ context.Context, c *Console, a []string) (string, error) {
				return fmt.Sprintf("cut %s from %s; `heal` mends all links", a[0], a[1]),
					c.cluster.Partition(a[0], a[1])
			}, nil},
		{"heal", "", 0, 0, "mend all links",
			func(_ context.Context, c *Console, _ []string) (string, error) {
				return "mended all links", c.cluster.Heal()
			}, nil},
		{"add", "SITE...", 1, many, "have a member join at each of the sites",
			func(ctx context.Context, c *Console, a []string) (string, error) {
				return c.cluster.Add(ctx, a...)
			}, change},
		{"remove", "SITE...", 1, many, "have the members of sites leave, or single ones by their name",
			func(ctx context.Context, c *Console, a []string) (string, error) {
				return c.cluster.Remove(ctx, a...)
			}, change},
		{"replace", "SITE [with SITE]", 1, 3,
			"have the members of a site leave, and others join there or at another one", replace, change},
		{"abandon", "", 0, 0, "give up the change of members that is going on",
			func(_ context.Context, c *Console, _ []string) (string, error) {
				return "giving the change up", c.cluster.Abandon()
			}, change},
		{"move", "SHARD SITE", 2, 2,
			"have the master of a CURP shard be at a site, or `default`: where it is without this",
			func(_ context.Context, c *Console, a []string) (string, error) {
				return c.cluster.Move(a[0], a[1])
			}, move},
		{"split", "", 0, 0, "have the next CURP shard in turn give half of its keys to a new one",
			func(_ context.Context, c *Console, _ []string) (string, error) { return c.cluster.Split() }, split},
		{"recover", "MEMBER", 1, 2, "go on with one member after the others are lost for good (CURP: all " +
			"[SHARD,...], and what may be empty)",
			func(ctx context.Context, c *Console, a []string) (string, error) {
				return c.cluster.Recover(ctx, a[0], a[1:]...)
			}, nil},
		{"status", "", 0, 0, "show the sites, their ports and how they are doing",
			func(ctx context.Context, c *Console, _ []string) (string, error) {
				return strings.Join(c.table(ctx, 0), "\n"), nil
			}, nil},
		{"quit", "", 0, 0, "stop all members in order and leave",
			func(context.Context, *Console, []string) (string, error) { return "stopping", ErrQuit }, nil},
	}
}

// replace takes `va`, `va jp` and `va with jp`.
func replace(ctx context.Context, c *Console, a []string) (string, error) {
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

// find is the command that a line gives, with its arguments.
func find(line string) (a Action, args []string, err error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	all := Actions()
	i := slices.IndexFunc(all, func(a Action) bool { return a.Name == name })
	if i < 0 {
		return a, nil, fmt.Errorf("unknown command %q; `help` lists the commands", name)
	}
	args = strings.Fields(rest)
	return all[i], args, all[i].Check(len(args))
}

// Execute carries out one line. A blank one does nothing. It returns ErrQuit, with a text, for quit.
func (c *Console) Execute(ctx context.Context, line string) (string, error) {
	switch words := strings.Fields(line); {
	case len(words) == 0:
		return "", nil
	case words[0] == "help":
		return help(), nil
	}
	a, args, err := find(line)
	if err != nil {
		return "", err
	}
	return a.run(ctx, c, args)
}

// Follow writes how the change, the move or the split that a line began is going, until it is over or the context ends.
// Of another line there is nothing to follow.
func (c *Console) Follow(ctx context.Context, line string, write func(string)) error {
	a, args, err := find(line)
	if err != nil || a.follow == nil {
		return nil
	}
	return a.follow(ctx, c.cluster, args, write)
}

// help lists the commands.
func help() string {
	var b strings.Builder
	for _, a := range Actions() {
		fmt.Fprintf(&b, "%-25s %s\n", a.Usage(), a.Help)
	}
	fmt.Fprintf(&b, "%-25s %s", "help", "this list")
	return b.String()
}

// maxRows is how many partitions a table that stays on the screen has, to leave room for the rest.
const maxRows = 8

// Table observes the cluster and renders it, as far as it fits.
func (c *Console) Table(ctx context.Context) []string { return c.table(ctx, maxRows) }

// table has what happened since the tables that this console made before. At most so many partitions are in it; 0: all.
func (c *Console) table(ctx context.Context, partitions int) []string {
	observations := c.cluster.Observe(ctx)
	going := c.cluster.Going(observations)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	lines := c.rates.table(observations, now)
	lines = append(lines, c.rates.partitions(going, observations, partitions, now)...)
	return append(lines, going.Lines...)
}
