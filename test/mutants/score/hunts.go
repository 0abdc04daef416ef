package main

import (
	"cmp"
	"fmt"
)

// hunt is a way in which the program searches for what goes wrong.
type hunt struct {
	by        string // for people
	arguments []string
	weight    int // its share of the schedules
	// cost is how many schedules one of it counts for: those of --lose are runs of their own for each set of disks.
	cost int
	few  bool // of as few members as the protocol can have (fewest)
}

// fewest is how many members protocols have that can't have three.
var fewest = map[string]string{"gus-fragments": "5", "gus-relaxed": "7", "epaxos-small": "5", "gryffrsc-small": "5"}

// stable are all faults but changes of members, and crashes those by which what is not durable is lost.
const (
	stable = "crash,torn,wipe,partition,loss,duplicate,reorder,slow,skew,pause,old-copy,rot,outage,limits,in-flight," +
		"slow-disk,hasty"
	crashes = "crash,torn,partition,loss,reorder,outage,limits,in-flight,slow-disk,hasty"
	changes = "change,crash,loss,partition,mix,in-flight,apart"
)

// stays is the name of a hunt in which members stay.
const stays = "%s, members stay"

// lossy is how many runs a schedule of --lose counts for.
const lossy = 40

// kinds are the hunts with a protocol: in one few members crash and messages are lost, one is of all faults, in one members
// stay, in one they change with few other faults, in one schedules are directed at what mistakes need, and in one disks are
// lost for good. The world of CURP always has changes of masters.
var kinds = []hunt{
	{by: "%s, few members crash", arguments: []string{"--faults", crashes}, weight: 3, cost: 1, few: true},
	{by: "%s", weight: 4, cost: 1},
	{by: stays, arguments: []string{"--faults", stable}, weight: 2, cost: 1},
	{by: "%s, members change", arguments: []string{"--faults", changes}, weight: 2, cost: 1},
	{by: "%s, directed", arguments: []string{"--faults", "directed"}, weight: 3, cost: 1},
	{by: "%s, disks lost", arguments: []string{"--lose", "1", "--sites", "5"}, weight: 1, cost: lossy},
}

// focus are the faults that a package is about: a hunt of its own is of these.
var focus = map[string]string{
	"replica/protocol/position":   "old-copy,rot,crash,loss,partition",
	"replica/protocol/member":     "change,wipe,crash,loss,partition,old-copy,limits,outage,mix",
	"replica/membership":          "change,wipe,crash,loss,partition,outage,mix",
	"replica/view":                "change,wipe,crash,partition,outage,mix",
	"replica/protocol/session":    "limits,in-flight,crash,loss,change,outage",
	"replica/protocol/curp/store": "limits,in-flight,crash,loss,change,outage",
}

// protocolsOf are the protocols that show what goes wrong in a package, those that are likelier to first.
var protocolsOf = map[string][]string{
	"replica/protocol/abd":        {"abd"},
	"replica/protocol/caspaxos":   {"caspaxos"},
	"replica/protocol/curp":       {"curp"},
	"replica/protocol/curp/store": {"curp"},
	"replica/protocol/curpraft":   {"curpraft"},
	"replica/protocol/epaxos":     {"epaxos"},
	"replica/protocol/gryff":      {"gryff", "gryffrsc"},
	"replica/protocol/gus":        {"gus", "gus-relaxed", "gus-fragments"},
	"replica/protocol/instance":   {"epaxos", "gryff", "epaxos-small"},
	"replica/protocol/layered":    {"gus-fragments"},
	"replica/protocol/raft":       {"raft", "curpraft"},
	"replica/protocol/rmwpaxos":   {"rmwpaxos", "rmwpaxosatleastonce"},
	"replica/protocol/base":       {"abd", "caspaxos", "rmwpaxos", "gryff", "gus", "epaxos", "raft", "curp"},
	"replica/protocol/member":     {"gryff", "abd", "raft", "rmwpaxos", "gus-fragments"},
	"replica/protocol/position":   {"abd", "raft", "curp"},
	"replica/protocol/quorum":     {"gryff", "rmwpaxos", "gus", "epaxos"},
	"replica/protocol/session":    {"raft", "rmwpaxos", "epaxos", "caspaxos"},
	"replica/membership":          {"curp", "abd", "gryff", "gus-fragments"},
	"replica/view":                {"gryff", "gus-relaxed", "raft", "curp"},
	"witness/core":                {"curp"},
}

// huntsOf are all hunts for a package's mutants, the cheap ones first.
func huntsOf(folder string) (all []hunt) {
	ways := kinds
	if focus[folder] != "" {
		about := hunt{by: "%s, " + focus[folder], arguments: []string{"--faults", focus[folder]}, weight: 4, cost: 1}
		ways = append([]hunt{about}, kinds...)
	}
	for _, way := range ways {
		for _, p := range protocolsOf[folder] {
			if p == "curp" && way.by == stays {
				continue
			}
			h := way.of(p)
			if h.few {
				h.arguments = append(h.arguments, "--sites", cmp.Or(fewest[p], "3"))
			}
			all = append(all, h)
		}
	}
	return all
}

// of is the hunt with a protocol.
func (h hunt) of(p string) hunt {
	h.by = fmt.Sprintf(h.by, p)
	h.arguments = append([]string{"--protocol", p}, h.arguments...)
	return h
}

// shares splits so many schedules among hunts by their weights, as schedules of each.
func shares(hunts []hunt, schedules int) []int {
	whole := 0
	for _, h := range hunts {
		whole += h.weight
	}
	split := make([]int, len(hunts))
	for i, h := range hunts {
		split[i] = schedules * h.weight / whole / h.cost
	}
	return split
}
