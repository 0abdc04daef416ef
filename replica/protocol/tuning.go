package protocol

import "time"

// Tuning bounds what members remember, gather and send at once. Any values are safe; what is beyond one costs round
// trips, or has a client told that an outcome is not known. A zero field has the default of its protocol, which is what
// clusters run with: smaller values are for searches, which then come to what is beyond them. Every member must be told
// the same, since replicas forget at the same places of one order.
type Tuning struct {
	// Sessions is how many sessions of clients are remembered by each key, with CURP by each partition. The ones that
	// were not seen for longest are forgotten; at least 1.
	Sessions int
	// SessionsFor is for how long a session is remembered after its last request, by the times at which requests were
	// issued. It counts in milliseconds.
	SessionsFor time.Duration
	// Answers is how many answers are kept of a session that has not acknowledged them; at least 1.
	Answers int
	// AnswerBytes is the size of an answer above which it is not kept: its duplicate is recognised, and not answered.
	AnswerBytes int
	// AllAnswerBytes is how many bytes of answers a key keeps of all sessions, or those of the session seen last if these
	// are more; at least 1. Not of CURP.
	AllAnswerBytes int
	// Batch is how many operations on a key an instance or a batch takes at most, and with CURP how many requests a
	// master tells a witness at once to drop; at least 1.
	Batch int
	// Carried is the size of a value, in bytes, up to which questions and regular reads bring it along.
	Carried int
	// Recorded is the size of a request, in bytes, up to which CURP has witnesses save it: at most its default.
	Recorded int
	// PageBytes bounds the records of one page of a state, and with CURP the entries of one message, give or take one.
	PageBytes int
	// Resting is how many keys without work a member remembers more of than what is on its disk; at least 1.
	Resting int
	// LogEntries and LogBytes are how much of Raft's or CURP's log is kept that is applied, for those that are behind.
	// With CURP as much of it is not applied yet, although it could be.
	LogEntries, LogBytes int
	// Uncommitted is how many bytes of commands a leader of Raft has in its log that are not committed, give or take an
	// entry: what comes then is refused, and handed to it again.
	Uncommitted int
	// Slots is how many commands a member of CURPRaft saves as a witness; package witness/cache says which numbers there
	// may be.
	Slots int
	// Writes and Versions are how much a member of Gus keeps of a key because it has not heard what is final: in its
	// record, writes of which it has said something, and in memory, values while reads are under way. At least 1.
	Writes, Versions int
	// Attempts is how many proposals of a batch a proposer of RMWPaxos remembers the answers of: after more, its reads
	// begin anew. At least 1.
	Attempts int
	// Looked is how many records of fragments a member looks at in one go, and how many registers, for what can go and
	// what it misses; at least 1. Grace is how long a fragment stays after its value was last found to be in use.
	Looked int
	Grace  time.Duration
}
