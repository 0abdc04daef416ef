package register

// Kind is what an operation does to its key.
type Kind uint8

// The kinds of operations.
const (
	Read  Kind = iota + 1 // returns the value
	Write                 // sets the value, whatever it was
	RMW                   // atomically replaces the value by a function of it
	Fence                 // has what the operation is After come before all that anyone invokes later; of no key
)

// String is the kind as histories and metrics spell it.
func (k Kind) String() string { return nameOf(k, "unknown", "read", "write", "rmw", "fence") }

// nameOf is the name of a number that counts from 1; other is that of any other one.
func nameOf[N ~uint8](n N, other string, names ...string) string {
	if n < 1 || int(n) > len(names) {
		return other
	}
	return names[n-1]
}

// Operation is one request for one key.
type Operation struct {
	Kind  Kind
	Key   string
	Value Value // Write: what to write; nil deletes
	Call  Call  // RMW: what to apply
	ID    ID    // RMW: makes retries exactly-once; the zero ID asks for no deduplication
	// Stale, of a Read, allows an answer that is a little older: a value that can't be lost any more, and that was the
	// register's at some time within a bound of the protocol's before the read began. It waits for less than a read
	// that is linearizable. Where the protocol knows of nothing better, it is one.
	Stale bool
	// Regular, of a Read, allows an answer that a quorum may not hold yet, where the protocol is regular sequentially
	// consistent (Result.Depends tells): who asks for it has every later operation carry what it depends on (Past).
	// Where it is not, this is a read as any other.
	Regular bool
	// After is what the operation's session depends on. It is at a quorum before the operation has any effect, or is
	// answered.
	After []Dependency
}

// Size is how many bytes the operation has from its client, without what it comes after.
func (o *Operation) Size() int {
	n := len(o.Key) + len(o.Value) + len(o.Call.Function)
	for _, argument := range o.Call.Args {
		n += len(argument)
	}
	return n
}

// Call names an rmw function and its arguments.
type Call struct {
	Function string // a name of the registry, with its version, such as "add.v1"
	Args     [][]byte
	// MaxValueBytes bounds what the function may produce. It travels with the call, so that all replicas
	// decide alike even while their limits are being changed.
	MaxValueBytes int
}

// ID identifies an rmw across retries and coordinators (as in RIFL): it is executed at most once.
type ID struct {
	Session uint64 // chosen at random by the client; 0 means none
	Number  uint64 // counts the session's rmws from 1
	// FirstIncomplete is the lowest number of the session whose outcome the client does not have yet;
	// results below it are forgotten.
	FirstIncomplete uint64
	// IssuedAt is when the client first issued the operation, in Unix milliseconds; retries keep it.
	// It only decides when a session's entry may be dropped, never an order.
	IssuedAt int64
}

// Status tells what became of an operation.
type Status uint8

// What can become of an operation.
const (
	OK          Status = iota + 1 // it took effect; Value is its answer
	Failed                        // the rmw function refused (Message says why); nothing changed
	Invalid                       // the request can't be served as it is; nothing changed
	Unsupported                   // the protocol has no such operation; nothing changed
	Unavailable                   // no quorum answered in time; it certainly has not taken and won't take effect
	Unknown                       // it may have taken effect, or may yet
)

// String is the status as histories and metrics spell it.
func (s Status) String() string {
	return nameOf(s, "none", "ok", "failed", "invalid", "unsupported", "unavailable", "unknown")
}

// Result is the answer to an operation.
type Result struct {
	Status   Status
	Value    Value  // Read: the value. RMW: what the function replied
	Message  string // for people; set unless Status is OK
	Carstamp Carstamp
	// RoundTrips counts the wide-area round trips from the coordinator that the answer waited for.
	RoundTrips int
	// Fast reports that the operation took its protocol's fast path.
	Fast bool
	// Depends, of a Regular read, reports that a quorum may not hold what was read: a dependency of its session from
	// now on.
	Depends bool
	// More reports that another result of the operation follows, of a kind whose results come in parts; none does
	// today. The operation is in progress until the last.
	More bool
	// Proof is that of the dependency, where a listener has made one for its client.
	Proof []byte
	// Holders is that of the dependency.
	Holders []byte
}

// Behind is the result of an operation that waited for so many round trips before its protocol began with it.
func (r Result) Behind(roundTrips int) Result {
	r.RoundTrips += roundTrips
	r.Fast = r.Fast && roundTrips == 0
	return r
}
