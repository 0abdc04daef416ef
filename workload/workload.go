// Package workload makes the operations of experiments and measures how they went. The simulator, dev and
// bench share it, so that their figures compare.
package workload

// Mix is the weights of the kinds of operations. They need not add up to anything.
type Mix struct{ Read, Write, RMW float64 }

// Keys is how a workload chooses keys.
type Keys string

// The ways of choosing keys.
const (
	// One key of all clients with probability Spec.Conflict, else the client's own key (Gryff, section 6.2).
	Conflict Keys = "conflict"
	Zipf     Keys = "zipf"    // KeyCount keys, the i-th drawn in proportion to 1/i^Theta
	Uniform  Keys = "uniform" // KeyCount keys, all alike
)

// RMWs is which read-modify-writes a workload makes.
type RMWs string

// The choices of read-modify-writes.
const (
	RMWAdd        RMWs = "add"         // adds 1; written values are then unique integers
	RMWAppend     RMWs = "append"      // appends unique tokens
	RMWCAS        RMWs = "cas"         // compare-and-swap, expecting what the client saw last
	RMWGetAndSet  RMWs = "get-and-set" // swaps in unique values
	RMWIdempotent RMWs = "idempotent"  // set-newest or add-member, as the key says: what may be applied more than once
	RMWMixed      RMWs = "mixed"       // all of these and more, as tests with faults want it
)

// Spec describes a workload.
type Spec struct {
	Mix        Mix
	Keys       Keys
	Conflict   float64 // Keys Conflict: probability in [0, 1]
	KeyCount   int     // Keys Zipf, Uniform: how many keys, at least 1
	Theta      float64 // Keys Zipf: the skew, at least 0; YCSB's is 0.99
	ValueBytes int     // how long written values are; a unique value that needs more is longer
	RMWs       RMWs
	Stale      bool // reads may be stale
}
