package main

import (
	"cmp"
	"context"
)

// A family is a hunt of drawn plain runs (faults.Plain): little happens in them, of few kinds, so that what else a
// mutant costs then is most of what differs. In random schedules of all faults it is lost among what differs by chance.
var families = []hunt{
	{by: "%s, plain runs with losses", arguments: []string{"--faults", "plain,loss,duplicate,reorder,slow-disk"}},
	{by: "%s, plain runs with members away", arguments: []string{"--faults", "plain,crash,partition"}},
	{by: "%s, plain runs in which members change", arguments: []string{"--faults", "plain,change,wipe"}},
}

// How many drawn plain runs there are of each family, of how many members unless the protocol needs more (fewest), and
// how many of the protocols of a package have them.
const (
	playedRuns      = 200
	playedDear      = 60 // of worlds with masters, which take some times as long
	playedMembers   = "5"
	playedProtocols = 2
)

// familiesOf are those of a package's first protocols.
func familiesOf(folder string) (all []hunt) {
	protocols := protocolsOf[folder]
	for _, h := range families {
		for _, p := range protocols[:min(playedProtocols, len(protocols))] {
			one := h.of(p)
			one.arguments = append(one.arguments, "--sites", cmp.Or(fewest[p], playedMembers))
			if one.weight = playedRuns; p == "curp" {
				one.weight = playedDear
			}
			all = append(all, one)
		}
	}
	return all
}

// play runs the families of a package with a mutant, and notes the first in which something goes wrong, or that costs
// more than without.
func (all *costings) play(ctx context.Context, program, folder string, known *result) error {
	for _, h := range familiesOf(folder) {
		var more comparison
		v, err := all.add(ctx, program, known.Name, h, 1, h.weight, &more)
		if err != nil {
			return err
		}
		known.Schedules += v.schedules
		if v.how != "" {
			known.Found, known.How, known.By, known.Reason = "search", v.how, h.by, v.reason
			return nil
		}
		if why := more.verdict(overallPlain); why != "" {
			known.Found, known.How, known.By, known.Reason = "costs", "costlier", h.by, why
			return nil
		}
	}
	known.Played = true
	return nil
}
