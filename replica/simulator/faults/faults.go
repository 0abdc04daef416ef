// Package faults says what can go wrong in a simulated run.
package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind names a kind of fault.
type Kind string

// The kinds of faults.
const (
	Crash     Kind = "crash"     // a process stops, loses what was not durable, and starts again
	Torn      Kind = "torn"      // as Crash, while an fsync is in flight, of which a part reached the disk
	Wipe      Kind = "wipe"      // as Crash, and the disk is empty afterwards
	Partition Kind = "partition" // nothing passes from some nodes to others, perhaps one way only
	Loss      Kind = "loss"      // messages are lost
	Duplicate Kind = "duplicate" // messages arrive twice
	Reorder   Kind = "reorder"   // messages overtake each other
	Slow      Kind = "slow"      // a node handles its inputs late, and in heaps
	Skew      Kind = "skew"      // a node's clock jumps ahead and runs at another speed
	// A process stands still, or its machine is suspended, while time and clock go on, then continues.
	Pause   Kind = "pause"
	OldCopy Kind = "old-copy" // as Crash, and the disk is then what it was some time before
	// As Crash, and the next process finds the disk damaged, and begins with an empty one.
	Rot    Kind = "rot"
	Change Kind = "change" // members join and leave: a joint view, then the one after it or the one before it
	// All members lose their power at once, at an answer or when everything is at rest, and as many as may be lost never
	// come back. It is the last fault: the others serve what was acknowledged, and go on.
	Outage Kind = "outage"
)

// Limits is no fault, and nothing happens when it begins: schedules that are drawn with it give members small bounds of
// what they remember, gather and send at once, and clients larger values than those.
const Limits Kind = "limits"

// InFlight is no fault either: sessions have several operations in progress at once, each from a client of its own.
const InFlight Kind = "in-flight"

// SlowDisk is no fault either: the disks of one site, or of all, take longer than members wait until they ask again.
const SlowDisk Kind = "slow-disk"

// Fetches is no fault either: records are not in memory, and what is about them waits until they are read from the
// disk.
const Fetches Kind = "fetches"

// Hasty is no fault either: members ask again before they could have been answered.
const Hasty Kind = "hasty"

// Apart is no fault either: while members change, those who come are cut off again and again.
const Apart Kind = "apart"

// Mix is no fault either: schedules differ more in what they are made of. Many have few of the kinds of faults, and no
// changes of members among them, and others many changes, one after the other; few members, or many keys; members that
// suspect each other at once; clocks that stand still in a pause.
const Mix Kind = "mix"

// Directed is no fault either: some schedules are ones in which something rare is likely, and without any faults
// beside it all are.
const Directed Kind = "directed"

// Plain is no fault either: schedules are plain runs of few operations in which nothing is drawn but a few of the other
// kinds that are listed with it. Of two versions of the program that differ in little, most of what such a schedule
// costs is the same.
const Plain Kind = "plain"

// Variations are the kinds that say how schedules are drawn, and are no faults.
func Variations() []Kind {
	return []Kind{Limits, InFlight, SlowDisk, Fetches, Hasty, Apart, Mix, Directed, Plain}
}

// The kinds of faults of worlds with masters and witnesses.
const (
	Lose Kind = "lose" // a witness loses its disk; another one takes its place under a new ID
	// The record of views is lost when few members have the newest, and is made again from what the others say.
	Forget Kind = "forget"
	// The master of a partition gets another home, as an administrator does it, and goes there once a member at that site
	// has the state.
	Move Kind = "move"
	// So many members are lost for good, with the witnesses beside them, that no quorum is left. An administrator gives
	// the others up, and partitions go on from the members that are left.
	LostQuorum Kind = "lost-quorum"
	Split      Kind = "split" // there is to be one partition more, to which another one gives half of its keys
	// OldCopy of a witness's disk, and of the volume that a member's disk shares with that of the witness beside it.
	WitnessCopy Kind = "witness-copy"
	VolumeCopy  Kind = "volume-copy"
)

// Misread is of directed schedules alone: a disk gives other fragments of large values than it has, for a while, and
// its process does not notice.
const Misread Kind = "misread"

// Kinds lists the kinds of worlds without masters.
func Kinds() []Kind {
	return []Kind{
		Crash, Torn, Wipe, Partition, Loss, Duplicate, Reorder, Slow, Skew, Pause, OldCopy, Rot, Change, Outage,
		Limits, InFlight, SlowDisk, Fetches, Hasty, Apart,
	}
}

// CURPKinds lists the kinds of worlds with masters and witnesses. Which member is master, backup or witness
// changes by what they lead to; clocks only drift, within the bound of leases.
func CURPKinds() []Kind { return append(Kinds(), Lose, Forget, Move, LostQuorum, Split) }

// Basic lists the kinds that come all at once, as each other's company; others are drawn apart from them.
func Basic() []Kind {
	return []Kind{Crash, Torn, Wipe, Partition, Loss, Duplicate, Reorder, Slow, Skew, Pause}
}

// WithStableMembers leaves out the kinds for which members have to come and go.
func WithStableMembers(kinds []Kind) []Kind {
	return Without(kinds, Change, Wipe, OldCopy, Rot, Forget, LostQuorum, Split)
}

// Without is kinds less some.
func Without(kinds []Kind, some ...Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return slices.Contains(some, k) })
}

// Parse reads "none", "all" or a list of some of the known kinds, such as "crash,loss".
func Parse(list string, known []Kind) ([]Kind, error) {
	switch list {
	case "none", "":
		return nil, nil
	case "all":
		return known, nil
	}
	var kinds []Kind
	for _, name := range strings.Split(list, ",") {
		kind := Kind(strings.TrimSpace(name))
		if !slices.Contains(known, kind) {
			return nil, fmt.Errorf("unknown fault %q; known are none, all, or some of %v", name, known)
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// Fault is one fault of a schedule.
type Fault struct {
	Kind Kind
	At   time.Duration
	// Until it is undone: the process starts again, the partition heals, ...; Change: between rounds of calls.
	For time.Duration
	// Node is the position of the site where the fault is; of Change, where the first one leaves, and of Move, where the
	// master goes.
	Node       int
	Everywhere bool   // Partition, Loss, Duplicate, Reorder: on all links; else on those of Node
	ByDefault  bool   // Move: the master goes where it is without a move, and not to Node
	Partition  int    // Move: the partition of the view, by its index
	Side       uint64 // Partition: a bit per node on the one side; Change: per node that the manager does not reach
	// OneWay partitions block only what goes from Side to the others.
	OneWay bool
	// Rate is how many of 1000 messages the fault hits: of those that are sent meanwhile (Loss, Duplicate, Reorder), are
	// on their way when it begins (Partition, and whatever stops a process), or are the manager's calls (Change).
	Rate  int
	Drift int // Skew: how many millionths the clock is fast
	// Duplicate, Reorder, Slow, Change: the longest extra delay; Skew: how far the clock jumps; OldCopy: how old the copy
	// is, which is made At.
	Size   time.Duration
	Intact int  // Torn: how many batches of the fsync in flight reach the disk
	Join   int  // Change: how many members join
	Leave  int  // Change: how many leave
	Alive  bool // Change: the processes of those who leave live on; else they are gone for ever
}

// Blocks reports whether a Partition lets nothing pass from one node to another, by their positions.
func (f *Fault) Blocks(from, to int) bool {
	out, in := f.Side&(1<<from) != 0, f.Side&(1<<to) != 0
	return out && !in || !f.OneWay && in && !out
}

// String describes the fault in a line.
func (f Fault) String() string {
	where := fmt.Sprintf("member %d", f.Node+1)
	if f.Everywhere {
		where = "all links"
	}
	text := fmt.Sprintf("%s of %s at %v for %v", f.Kind, where, f.At, f.For)
	switch f.Kind {
	case Partition:
		text = fmt.Sprintf("partition of members %s at %v for %v", names(f.Side), f.At, f.For)
		if f.OneWay {
			text += ", one way"
		}
	case Loss, Duplicate, Reorder:
		text += fmt.Sprintf(", %d of 1000 messages", f.Rate)
	case Move:
		text = fmt.Sprintf("move at %v: partition %d, to site %d", f.At, f.Partition, f.Node+1)
		if f.ByDefault {
			text = fmt.Sprintf("move at %v: partition %d, to where it is by default", f.At, f.Partition)
		}
	case Split:
		text = fmt.Sprintf("split at %v: there is to be one partition more", f.At)
	case LostQuorum:
		text = fmt.Sprintf("lost quorum at %v: so many members are lost for good", f.At)
	case Slow, Skew, OldCopy, WitnessCopy, VolumeCopy:
		text += fmt.Sprintf(", by %v", f.Size)
	case Change:
		text = fmt.Sprintf("change at %v: %d join, %d leave, the one at site %d first; a round of calls every %v",
			f.At, f.Join, f.Leave, f.Node+1, f.For)
		if f.Side != 0 {
			text += fmt.Sprintf(", none of members %s", names(f.Side))
		}
		if f.Alive {
			text += "; their processes live on"
		}
	}
	return text
}

// Newcomers is how many members some faults may have join.
func Newcomers(all []Fault) int {
	count := 0
	for _, f := range all {
		count += f.Join
	}
	return count
}

// names lists the members on a side.
func names(side uint64) string {
	var all []string
	for i := range 64 {
		if side&(1<<i) != 0 {
			all = append(all, fmt.Sprint(i+1))
		}
	}
	return strings.Join(all, "+")
}

// Injected is a fault in a run.
type Injected struct {
	Fault
	Active bool // it is in force
	Hit    bool // it hit work in flight
	Waited int  // how often it was put off
}

// Touch notes that the fault changed what happens to a message or a process, while some operations were in progress.
func (f *Injected) Touch(operations int) { f.Hit = f.Hit || operations > 0 }
