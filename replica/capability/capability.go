// Package capability is the one table of what each protocol can do, at which cost and with how many members. Manifest
// validation, listeners, the command line and the documentation read it; no protocol does. Each protocol defines its
// row, in replica/protocol; the table is generated from them (make manifests), so that its readers depend on no
// protocol.
package capability

import (
	"cmp"
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
	AllButTwo                     // n - 2: EPaxos' own fast quorum, and never less than a majority
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
	case AllButTwo:
		return max(n-2, majority)
	case Nobody:
		return 1
	case Superquorum:
		return n - majority + majority/2 + 1
	}
	return majority // Replicas too, with the most that f can be
}

// String is the quorum as the table of protocols spells it.
func (q Quorum) String() string { return cmp.Or(quorumNames[q], "none") }

var quorumNames = map[Quorum]string{
	Majority: "majority", AllButOne: "n - 1", AllButTwo: "n - 2", Replicas: "master + f", Superquorum: "superquorum",
}

// Path is one way in which an operation can complete.
type Path struct {
	RoundTrips int    // wide-area round trips from the coordinator that the answer waits for
	Quorum     Quorum // the largest quorum that one of them waits for
}

// Trips is the path of so many round trips.
func Trips(roundTrips int, quorum Quorum) Path { return Path{RoundTrips: roundTrips, Quorum: quorum} }

// Operation is what a protocol makes of one kind of operation.
type Operation struct {
	Kind  register.Kind
	Best  Path // without failures and conflicts, at the site where that is least; zero if the operation is refused
	Worst Path // with them, short of lost messages; zero if the operation is refused
	// BestOnly lists the numbers of members with which every operation of this kind takes the best path, as long as who is
	// asked answers in time.
	BestOnly []int
	// UpTo is the most bytes of a value for which BestOnly says so. 0: any value.
	UpTo int
	// Idempotent says that of rmws there are only those of idempotent functions (register.Function).
	Idempotent bool
	// Refusal says, for people, why the protocol has no such operation and what to use instead. It is
	// empty if it has.
	Refusal string
}

// Protocol is a row of the table.
type Protocol struct {
	Name        string // as manifests spell it
	Consistency string // what clients may rely on, per key
	Members     []int  // how many replicas a cluster may have, ascending
	// Relaxed says that a cluster may be told how many replicas it loses at once, fewer than any minority, and has quorums
	// of other sizes then (view.RelaxedFor).
	Relaxed bool
	// Fast says that a cluster may be told how many replicas it loses at once, and that its fast quorums are the smaller
	// for that (view.View.FastQuorum).
	Fast bool
	// Fragments says that large values can be stored as fragments of an erasure code.
	Fragments  bool
	Operations []Operation
	// Note says, for people, what the numbers of the operations rest on, and what they leave out. It may be empty.
	Note string
}

// FragmentTrips is how many round trips storing or fetching the fragments of a value adds to those of its metadata.
const FragmentTrips = 1

// Sizes are the numbers of members that survive the loss of one more than the next smaller: a fourth makes quorums
// larger, and no more.
func Sizes() []int { return []int{3, 5, 7} }

// What clients may rely on, per key.
const (
	Linearizable      = "linearizable"
	RegularSequential = "regular sequential"
)

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
	if i := slices.IndexFunc(p.Operations, func(op Operation) bool { return op.Kind == kind }); i >= 0 {
		return p.Operations[i]
	}
	return Operation{Kind: kind, Refusal: fmt.Sprintf("protocol %s has no operation of kind %s", p.Name, kind)}
}

// Regular reports whether the protocol promises regular sequential consistency (Helt et al., section 3), and not more.
func (p Protocol) Regular() bool { return p.Consistency == RegularSequential }

// CheckOperation refuses a kind of operation that the protocol does not have; the error says what to use.
func (p Protocol) CheckOperation(kind register.Kind) error {
	if refusal := p.Operation(kind).Refusal; refusal != "" {
		return fmt.Errorf("%s", refusal)
	}
	return nil
}

// CheckTransaction refuses several calls on one key that are one rmw, where the protocol has no rmws of any function.
// The error names the protocols that have.
func (p Protocol) CheckTransaction() error {
	if p.transactional() {
		return nil
	}
	var others []string
	for _, other := range Table() {
		if other.transactional() {
			others = append(others, other.Name)
		}
	}
	return fmt.Errorf("a transaction on one key is a read-modify-write; use one of %s", strings.Join(others, ", "))
}

func (p Protocol) transactional() bool {
	return p.CheckOperation(register.RMW) == nil && !p.Operation(register.RMW).Idempotent
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

// CountsFaults reports whether members have quorums of other sizes if they are told how many may be lost at once.
func (p Protocol) CountsFaults() bool { return p.Relaxed || p.Fast }

// CheckFaults refuses a number of replicas, of n, that are to be tolerated as lost, where the protocol has no quorums
// for it; the error says why, and which number it has them for.
func (p Protocol) CheckFaults(n, f int) error {
	var fits []int
	for k := 1; k < n; k++ {
		if _, ok := view.RelaxedFor(n, k); ok {
			fits = append(fits, k)
		}
	}
	_, ok := view.RelaxedFor(n, f)
	switch {
	case !p.CountsFaults():
		return fmt.Errorf("protocol %s survives the loss of any minority", p.Name)
	case f < 1 || f > p.Faults(n):
		return fmt.Errorf("%d replicas can lose from 1 to %d; lower it, or add members", n, p.Faults(n))
	case p.Fast || n <= 5 || ok:
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

// CheckFragments refuses a number of data fragments for n replicas of which f may be lost (0: any minority): so many
// more than restore a value have to be acknowledged that enough are left without f, and also while f others do not
// answer.
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
