package main

import "fmt"

// hunt is a way in which the program searches for what goes wrong.
type hunt struct {
	by        string // for people
	arguments []string
	weight    int // its share of the schedules
	// cost is how many schedules one of it counts for: those of --lose are runs of their own for each set of disks.
	cost int
}

// stable are all faults but changes of members.
const stable = "crash,torn,wipe,partition,loss,duplicate,reorder,slow,skew,pause,old-copy,rot"

// lossy is how many runs a schedule of --lose counts for.
const lossy = 40

// kinds are the hunts with a protocol: one of all faults, one in which members stay, and one in which disks are lost for
// good. The world of CURP always has changes of masters.
var kinds = []hunt{
	{by: "%s", weight: 6, cost: 1},
	{by: "%s, members stay", arguments: []string{"--faults", stable}, weight: 3, cost: 1},
	{by: "%s, disks lost", arguments: []string{"--lose", "1", "--sites", "5"}, weight: 1, cost: lossy},
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
	"replica/protocol/instance":   {"epaxos", "gryff"},
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
	for i, kind := range kinds {
		for _, p := range protocolsOf[folder] {
			if p == "curp" && i == 1 {
				continue
			}
			h := kind
			h.by = fmt.Sprintf(h.by, p)
			h.arguments = append([]string{"--protocol", p}, h.arguments...)
			all = append(all, h)
		}
	}
	return all
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
