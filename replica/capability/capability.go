// Package capability is the one table of what each protocol can do, at which cost and with how many members.
// Manifest validation, listeners, the command line and the documentation read it; no protocol does.
package capability

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Quorum is how many members, the coordinator included, a round trip waits for.
type Quorum uint8

// The quorums in use.
const (
	Majority    Quorum = iota + 1 // floor(n/2) + 1: any two share a member
	AllButOne                     // n - 1: EPaxos' simple fast quorum, and never less than a majority
	Replicas                      // the key's master and its f witnesses, or its f backups
	Nobody                        // beyond the coordinator's own site
	Superquorum                   // f + ceil(f/2) + 1: a majority of any f + 1 is in it
)

// Size is the number of members of the quorum in a cluster of n.
func (q Quorum) Size(n int) int {
	majority := n/2 + 1
	switch q {
	case AllButOne:
		return max(n-1, majority)
	case Nobody:
		return 1
	case Superquorum:
		return n - majority + majority/2 + 1
	}
	return majority // Replicas too, with the most that f can be
}

// String is the quorum as the table of protocols spells it.
func (q Quorum) String() string {
	switch q {
	case Majority:
		return "majority"
	case AllButOne:
		return "n - 1"
	case Replicas:
		return "master + f"
	case Superquorum:
		return "superquorum"
	}
	return "none"
}

// Path is one way in which an operation can complete.
type Path struct {
	RoundTrips int    // wide-area round trips from the coordinator that the answer waits for
	Quorum     Quorum // the largest quorum that one of them waits for
}

// Operation is what a protocol makes of one kind of operation.
type Operation struct {
	Kind  register.Kind
	Best  Path // without failures and conflicts, at the site where that is least; zero if the operation is refused
	Worst Path // with them, short of lost messages; zero if the operation is refused
	// BestOnly lists the numbers of members with which every operation of this kind takes the best path, as long as who is asked
	// answers in time.
	BestOnly []int
	// UpTo is the most bytes of a value for which BestOnly says so. 0: any value.
	UpTo int
	// Refusal says, for people, why the protocol has no such operation and what to use instead. It is
	// empty if it has.
	Refusal string
}

// Protocol is a row of the table.
type Protocol struct {
	Name        string // as manifests spell it
	Consistency string // what clients may rely on, per key
	Members     []int  // how many replicas a cluster may have, ascending
	// Relaxed says that a cluster may be told how many replicas it loses at once, fewer than any minority, and has quorums of
	// other sizes then (view.RelaxedFor).
	Relaxed bool
	// Fragments says that large values can be stored as fragments of an erasure code.
	Fragments  bool
	Operations []Operation
	// Note says, for people, what the numbers of the operations rest on, and what they leave out. It may be empty.
	Note string
}

// FragmentTrips is how many round trips storing or fetching the fragments of a value adds to those of its metadata.
const FragmentTrips = 1

// carried is the largest value, in bytes, that a read of Gryff carries to who has an older one.
const carried = 64 << 10

// sizes are the numbers of members that survive the loss of one more than the next smaller: a fourth makes quorums larger, and no more.
var sizes = []int{3, 5, 7}

// What clients may rely on, per key.
const (
	linearizable      = "linearizable"
	regularSequential = "regular sequential"
)

// Table lists every protocol that is built, sorted by name. The caller owns the slice, and must not change
// what its rows refer to.
func Table() []Protocol {
	return []Protocol{
		{
			Name: "ABD", Consistency: linearizable, Members: sizes,
			Note: "1 is for a read that finds the last write with all of the majority that is nearest to it; it takes 2 where some of them missed that, " +
				"also long after the write, and then they have it",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{2, Majority}},
				{Kind: register.Write, Best: Path{2, Majority}, Worst: Path{2, Majority}},
				{Kind: register.RMW, Refusal: "protocol ABD has no read-modify-write operations: it stores plain " +
					"registers, which can't agree on one; use protocol Gryff"},
			},
		},
		{
			// The worst has a witness that rejects, a request to sync and the sync.
			Name: "CURP", Consistency: linearizable, Members: sizes,
			Note: "1 is for an update that commutes with what is not synced; 0 is for a read at the site of the master, or of a backup with a " +
				"witness of the partition, and elsewhere it is 1",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{0, Nobody}, Worst: Path{2, Replicas}},
				{Kind: register.Write, Best: Path{1, Replicas}, Worst: Path{3, Replicas}},
				{Kind: register.RMW, Best: Path{1, Replicas}, Worst: Path{3, Replicas}},
			},
		},
		{
			Name: "CURPRaft", Consistency: linearizable, Members: sizes,
			Note: "1 is for a read at the leader's site, and for an update that commutes with what is not committed; all else is as in Raft",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{2, Majority}},
				{Kind: register.Write, Best: Path{1, Superquorum}, Worst: Path{2, Majority}},
				{Kind: register.RMW, Best: Path{1, Superquorum}, Worst: Path{2, Majority}},
			},
		},
		{
			// With three members the one that is asked decides.
			Name: "EPaxos", Consistency: linearizable, Members: sizes,
			Note: "a read or an rmw also waits until what it depends on is known at its coordinator, which takes no round trip of its own",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, AllButOne}, Worst: Path{2, Majority}, BestOnly: []int{3}},
				{Kind: register.Write, Best: Path{1, AllButOne}, Worst: Path{2, Majority}, BestOnly: []int{3}},
				{Kind: register.RMW, Best: Path{1, AllButOne}, Worst: Path{2, Majority}, BestOnly: []int{3}},
			},
		},
		{
			Name: "Gryff", Consistency: linearizable, Members: sizes,
			Note: "with more than 3 members, 1 is for a read that finds the last write with a majority, who it brings it to included, and 2 for an rmw " +
				"that finds it with all of n - 1; else it takes one more, also long after the write",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{2, Majority}, BestOnly: []int{3}, UpTo: carried},
				{Kind: register.Write, Best: Path{2, Majority}, Worst: Path{2, Majority}},
				{Kind: register.RMW, Best: Path{2, AllButOne}, Worst: Path{3, Majority}, BestOnly: []int{3}},
			},
		},
		{
			// As Gryff, of clients that have sessions. The worst has both a fence in another shard and a write-back in its own, and a
			// read that of Gryff, too. With three members no read leaves anything to come after.
			Name: "GryffRSC", Consistency: regularSequential, Members: sizes,
			Note: "a session's operation that comes after a read that found what no quorum was known to hold takes one more than in Gryff if it is " +
				"in another shard, and one more if it is of another key or an rmw; a read by a client without sessions, or of a value " +
				"over 64 KiB, may take its second as in Gryff. With 3 members there are no such reads, but a session may bring them along " +
				"from when there were more",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{4, Majority}, BestOnly: []int{3}, UpTo: carried},
				{Kind: register.Write, Best: Path{2, Majority}, Worst: Path{4, Majority}, BestOnly: []int{3}},
				{Kind: register.RMW, Best: Path{2, AllButOne}, Worst: Path{5, Majority}, BestOnly: []int{3}},
				{Kind: register.Fence, Best: Path{0, Nobody}, Worst: Path{1, Majority}},
			},
		},
		{
			// A read takes a second one when what it found is not known to be final, and a third and a fourth to have that decided. With
			// relaxed quorums the best is the same, and the worst waits for n - f. The paper has it for four members too (section 3.3).
			Name: "Gus", Consistency: linearizable, Members: []int{3, 4, 5, 7, 9}, Relaxed: true, Fragments: true,
			Note: "4 is for a read that finds the write of one writer that failed, and 3 what it takes otherwise; if another operation is in the way of " +
				"deciding that, it can be more, without a bound, and so it can for a writer that is taken for failed. With erasureCoding a value " +
				"above the threshold takes one more, to store or to fetch its fragments; a read of one that is replaced meanwhile begins anew",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{4, Majority}},
				{Kind: register.Write, Best: Path{1, Majority}, Worst: Path{2, Majority}},
				{Kind: register.RMW, Refusal: "not supported by protocol Gus; it stores plain registers, which can't " +
					"agree on a read-modify-write: use protocol Gryff"},
			},
		},
		{
			// The worst is whatever the order of messages: what loses its round is handed to the key's proposer, which may lose too,
			// finishes what the other one began, and then writes.
			Name: "RMWPaxos", Consistency: linearizable, Members: sizes,
			Note: "1 is for a read of a register at rest, and for an update by the member that updated it last; the worst has one operation of " +
				"another member in the way, and more of them can make it more, without a bound",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{8, Majority}},
				{Kind: register.Write, Best: Path{1, Majority}, Worst: Path{9, Majority}},
				{Kind: register.RMW, Best: Path{1, Majority}, Worst: Path{9, Majority}},
			},
		},
		{
			Name: "RMWPaxosAtLeastOnce", Consistency: linearizable, Members: sizes,
			Note: "as RMWPaxos, for idempotent functions alone",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{8, Majority}},
				{Kind: register.Write, Refusal: "protocol RMWPaxosAtLeastOnce has no plain writes: it may apply an update more than " +
					"once, and a write that is applied again takes back what was written after it; call set-newest.v1, which " +
					"writes with a version, or use protocol RMWPaxos"},
				{Kind: register.RMW, Best: Path{1, Majority}, Worst: Path{9, Majority}},
			},
		},
		{
			Name: "Raft", Consistency: linearizable, Members: sizes,
			Note: "1 is for the leader's site",
			Operations: []Operation{
				{Kind: register.Read, Best: Path{1, Majority}, Worst: Path{2, Majority}},
				{Kind: register.Write, Best: Path{1, Majority}, Worst: Path{2, Majority}},
				{Kind: register.RMW, Best: Path{1, Majority}, Worst: Path{2, Majority}},
			},
		},
	}
}

// Names lists the protocols as manifests spell them, sorted.
func Names() []string {
	var names []string
	for _, p := range Table() {
		names = append(names, p.Name)
	}
	return names
}

// Find returns the row of a protocol. The case of the name does not matter.
func Find(name string) (Protocol, error) {
	for _, p := range Table() {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
	}
	return Protocol{}, fmt.Errorf("unknown protocol %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Operation is what the protocol makes of a kind of operation; of an unknown kind, a refusal.
func (p Protocol) Operation(kind register.Kind) Operation {
	for _, op := range p.Operations {
		if op.Kind == kind {
			return op
		}
	}
	return Operation{Kind: kind, Refusal: fmt.Sprintf("protocol %s has no operation of kind %s", p.Name, kind)}
}

// Regular reports whether the protocol promises regular sequential consistency (Helt et al., section 3), and not more.
func (p Protocol) Regular() bool { return p.Consistency == regularSequential }

// CheckOperation refuses a kind of operation that the protocol does not have; the error says what to use.
func (p Protocol) CheckOperation(kind register.Kind) error {
	if refusal := p.Operation(kind).Refusal; refusal != "" {
		return fmt.Errorf("%s", refusal)
	}
	return nil
}

// CheckMembers refuses a number of replicas that the protocol can't run with; the error names those it can.
func (p Protocol) CheckMembers(n int) error {
	if slices.Contains(p.Members, n) {
		return nil
	}
	return fmt.Errorf("protocol %s runs with %s replicas, not %d", p.Name, either(p.Members), n)
}

// Faults is how many of n members may be lost at once with every operation still served.
func (p Protocol) Faults(n int) int { return (n - 1) / 2 }

// CheckFaults refuses a number of replicas, of n, that are to be tolerated as lost, where the protocol has no quorums for it; the
// error says why, and which number it has them for.
func (p Protocol) CheckFaults(n, f int) error {
	var fits []int
	for k := 1; k < n; k++ {
		if _, ok := view.RelaxedFor(n, k); ok {
			fits = append(fits, k)
		}
	}
	_, ok := view.RelaxedFor(n, f)
	switch {
	case !p.Relaxed:
		return fmt.Errorf("protocol %s survives the loss of any minority", p.Name)
	case f < 1 || f > p.Faults(n):
		return fmt.Errorf("%d replicas can lose from 1 to %d; lower it, or add members", n, p.Faults(n))
	case n <= 5 || ok:
		return nil // up to 5, majorities do
	case 2*f+1 == n:
		return fmt.Errorf("for n > 5 and n = 2f + 1 no register has both reads and writes of one round trip (theorem 1 of the Gus "+
			"paper), and with %d replicas f = %d is that: lower it to %s, or leave it out to have majorities, whose reads may have "+
			"to wait longer", n, f, either(fits))
	}
	return fmt.Errorf("%d replicas have no quorums for f = %d: 2n - 2Q_W - 1 < Q_R does not hold (section 5.1 of the Gus paper); lower it to %s, "+
		"or leave it out to have majorities", n, f, either(fits))
}

// CheckErasureCoding refuses to store large values as fragments with a protocol that does not know of them.
func (p Protocol) CheckErasureCoding() error {
	if p.Fragments {
		return nil
	}
	return fmt.Errorf("protocol %s stores values whole", p.Name)
}

// CheckFragments refuses a number of data fragments for n replicas of which f may be lost (0: any minority): so many more than
// restore a value have to be acknowledged that enough are left without f, and also while f others do not answer.
func (p Protocol) CheckFragments(n, f, k int) error {
	if err := p.CheckErasureCoding(); err != nil {
		return err
	}
	if f == 0 {
		f = p.Faults(n)
	}
	if most := n - 2*f; k < 1 || k > most {
		return fmt.Errorf("%d replicas of which %d may be lost can have from 1 to %d data fragments (k <= n - 2f), not %d; lower "+
			"dataFragments or faultTolerance, or add members", n, f, most, k)
	}
	return nil
}

// RoundTrips is the least and the most wide-area round trips that an operation waits for in a cluster of n
// members without lost messages, of values that are no longer than UpTo; 0, 0 if the protocol refuses it.
func (p Protocol) RoundTrips(kind register.Kind, n int) (best, worst int) {
	op := p.Operation(kind)
	if slices.Contains(op.BestOnly, n) {
		return op.Best.RoundTrips, op.Best.RoundTrips
	}
	return op.Best.RoundTrips, op.Worst.RoundTrips
}

// either spells "3, 5 or 7".
func either(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, fmt.Sprint(n))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
