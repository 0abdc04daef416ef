package layered

// Mistakes put known bugs back, for tests that show that they are found. The zero value has none.
type Mistakes struct {
	WriteAtOnce          bool // the metadata is written when one member has its fragment
	CountFragmentsOnly   bool // it is written when k have theirs: f that are lost leave less
	AckBeforePersist     bool // a fragment is acknowledged before it is durable
	SubmitBeforePersist  bool // the metadata is sent before the writer's own disk knows that
	ReuseNames           bool // names begin again with the process
	VoteWithoutFragments bool // a member whose disk was lost votes before it has its fragments again
	DropUnused           bool // a member drops each fragment whose metadata it does not hold
	GiveUpEarly          bool // a rebuilding member takes a value for given up after one answer
	// A voting member that has yet to rebuild its fragment tells nobody that it has none, nor counts itself.
	WaitInSilence bool
	// A member whose disk was lost counts itself as one that has none, as if the lost disk had had none.
	CountLostDisk bool
	// A repair keeps its fragment though the register has another value by now, as if it had been sent.
	RepairLate bool
	// A read whose value is over waits for members that are away, if these could have its fragments.
	WaitForAll     bool
	CountGone      bool // fragments of members that were to join, in a change that was taken back, count towards k
	TrustFragments bool // what fragments make is not compared with the checksum
	// No mistake: a fragment goes as soon as its value is over, so that reads begin anew more often, and is repaired as
	// soon as it is missed.
	NoGrace bool
	// No mistake: fragments are handed to as many as have to have theirs, at first, so that the others miss them.
	Thrifty bool
	Endless bool // a read begins anew as often as it takes
}
