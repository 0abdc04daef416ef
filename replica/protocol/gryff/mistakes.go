package gryff

// Mistakes put known bugs back, one each, for tests that show that the simulator finds them. The zero value
// has none. docs/protocols.md says what each one breaks.
type Mistakes struct {
	AnswerBeforePersist bool // a proxy answers a read before its own adoption is durable
	ReplyVolatile       bool // Read1Reply tells of a value that can still be lost
	SpreadVolatile      bool // Read1 carries a value that the proxy can still lose
	SkipWriteBack       bool // a read returns what a single member may hold
	SameTag             bool // concurrent writes of one coordinator issue one carstamp
	// What is sent in a second phase, or returned, is the register's present value under the chosen carstamp.
	RereadValue bool
	// A write's second phase is retried under a new carstamp; the old one's acknowledgements count.
	RetryWithNewTag  bool
	TagWithoutBoot   bool // a restarted coordinator issues the carstamps of its earlier life
	ResumeWithNewTag bool // a write that goes on in another view gets a new carstamp there

	// Of Gryff-RSC.
	DropDependency bool // an operation neither applies nor carries what its session depends on
	// A member replies to what carries dependencies before it applies them, and before they are durable.
	ApplyAfterAnswer    bool
	RMWWithoutWriteBack bool // an rmw is proposed when its coordinator alone holds what its session depends on
	FenceWithoutQuorum  bool // a fence completes when its coordinator alone holds what its session depends on
	HeldAtOnce          bool // what a read writes back after its answer counts as held by a quorum when that begins
	HeldInAnyVersion    bool // what a session depends on counts as held by a quorum if an older version of its key is
	// WriteBesideDependencies has a write carry what its session depends on in its first phase. Its place in the order
	// is then before that of its dependencies, if a newer value of its key is held earlier than they are
	// (testdata/mistakes).
	WriteBesideDependencies bool
	// AskBesideDependencies is section 7.1 as published: a read carries what its session depends on beside its
	// question. Two sessions then see two writes in no order (testdata/mistakes).
	AskBesideDependencies bool
}
