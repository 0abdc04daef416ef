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

// Action describes a command, for help texts.
type Action struct {
	Name        string
	Arguments   string // as people are told, empty: none
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
		all = append(all, a.Action)
	}
	return all
}

// action is a command. With follow it begins a change of members, a move or a split, which can be followed.
type action struct {
	Action
	follow bool
	run    func(ctx context.Context, c *dev.Cluster, args []string) (string, error)
}

// many bounds the arguments of a command that takes several.
const many = 7

// actions are the commands on a cluster; status and quit are the console's own.
func actions() []action {
	return []action{
		{Action{"kill", "SITE", 1, 1,
			"end the members of a site as a crash would; their disks stay (SITE/witness: a CURP witness alone)"}, false,
			func(_ context.Context, c *dev.Cluster, a []string) (string, error) {
				return fmt.Sprintf("killed %s; `restart %s` brings it back", a[0], a[0]), c.Kill(a[0])
			}},
		{Action{"restart", "SITE", 1, 1, "start the members of a site on their disks; stop them first if they run"},
			false,
			func(_ context.Context, c *dev.Cluster, a []string) (string, error) {
				return fmt.Sprintf("restarted %s", a[0]), c.Restart(a[0])
			}},
		{Action{"wipe", "SITE", 1, 1, "kill the members of a site, lose their disks, and start them as newcomers"},
			false,
			func(_ context.Context, c *dev.Cluster, a []string) (string, error) {
				next := "it joins as a newcomer and votes when it has the others' state"
				if c.Partitioned() {
					next = fmt.Sprintf("its parts go to others, and `replace %s` has a newcomer take its place", a[0])
				}
				return fmt.Sprintf("wiped %s; %s", a[0], next), c.Wipe(a[0])
			}},
		{Action{"partition", "SITE SITE", 2, 2, "cut the links between two sites"}, false,
			func(_ context.Context, c *dev.Cluster, a []string) (string, error) {
				return fmt.Sprintf("cut %s from %s; `heal` mends all links", a[0], a[1]), c.Partition(a[0], a[1])
			}},
		{Action{"heal", "", 0, 0, "mend all links"}, false,
			func(_ context.Context, c *dev.Cluster, _ []string) (string, error) {
				return "mended all links", c.Heal()
			}},
		{Action{"add", "SITE...", 1, many, "have a member join at each of the sites"}, true,
			func(ctx context.Context, c *dev.Cluster, a []string) (string, error) { return c.Add(ctx, a...) }},
		{Action{"remove", "SITE...", 1, many, "have the members of sites leave, or single ones by their name"}, true,
			func(ctx context.Context, c *dev.Cluster, a []string) (string, error) { return c.Remove(ctx, a...) }},
		{Action{"replace", "SITE [with SITE]", 1, 3,
			"have the members of a site leave, and others join there or at another one"}, true, replace},
		{Action{"abandon", "", 0, 0, "give up the change of members that is going on"}, true,
			func(_ context.Context, c *dev.Cluster, _ []string) (string, error) {
				return "giving the change up", c.Abandon()
			}},
		{Action{"move", "SHARD SITE", 2, 2,
			"have the master of a CURP shard be at a site, or `default`: where it is without this"}, true,
			func(_ context.Context, c *dev.Cluster, a []string) (string, error) { return c.Move(a[0], a[1]) }},
		{Action{"split", "", 0, 0, "have the next CURP shard in turn give half of its keys to a new one"}, true,
			func(_ context.Context, c *dev.Cluster, _ []string) (string, error) { return c.Split() }},
		{Action{"recover", "MEMBER", 1, 2, "go on with one member after the others are lost for good (CURP: all " +
			"[SHARD,...], and what may be empty)"}, false,
			func(ctx context.Context, c *dev.Cluster, a []string) (string, error) {
				return c.Recover(ctx, a[0], a[1:]...)
			}},
		{Action{"status", "", 0, 0, "show the sites, their ports and how they are doing"}, false, nil},
		{Action{"quit", "", 0, 0, "stop all members in order and leave"}, false, nil},
	}
}

// replace takes `va`, `va jp` and `va with jp`.
func replace(ctx context.Context, c *dev.Cluster, a []string) (string, error) {
	if len(a) == 3 && strings.EqualFold(a[1], "with") {
		a = []string{a[0], a[2]}
	}
	switch len(a) {
	case 1:
		return c.Replace(ctx, a[0], "")
	case 2:
		return c.Replace(ctx, a[0], a[1])
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
		return help(), nil
	}
	all := actions()
	i := slices.IndexFunc(all, func(a action) bool { return a.Name == words[0] })
	if i < 0 {
		return "", fmt.Errorf("unknown command %q; `help` lists the commands", words[0])
	}
	a := all[i]
	if err := a.Check(len(words) - 1); err != nil {
		return "", err
	}
	switch a.Name {
	case "status":
		return strings.Join(c.table(ctx, 0), "\n"), nil
	case "quit":
		return "stopping", ErrQuit
	}
	return a.run(ctx, c.cluster, words[1:])
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
	if !slices.ContainsFunc(actions(), func(a action) bool { return a.Name == name && a.follow }) {
		return nil
	}
	return c.cluster.Follow(ctx, write)
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
