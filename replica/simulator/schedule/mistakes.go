package schedule

// ManagerMistakes put known bugs back, for tests that show that the simulator finds them.
type ManagerMistakes struct {
	AnyEpoch    bool // messages of one view are delivered in another
	SameID      bool // a lost member's successor takes its ID, and votes with its empty disk
	Uncovered   bool // a change is finished before the state is where it is needed
	Forgets     bool // the view after a change is told before it is recorded, and then the change is abandoned
	AnyView     bool // who holds an earlier view counts as done with its part in a joint one
	StaleRecord bool // after a crash it decides from the record before the latest one, and gives the change up
	// WholeValues has a change be finished as if nothing were stored as fragments.
	WholeValues bool
}

// PartitionMistakes put known bugs of a manager of partitions back.
type PartitionMistakes struct {
	TellsFirst bool // a view is told before it is recorded, and a crash forgets it
	NoBackup   bool // a master is followed by a member that was no backup
	EndsEarly  bool // lives are ended that a master has to recover from still
	Alone      bool // who does not answer the manager is suspected
	Forgets    bool // a master is followed by one that does not know what it has to recover from
	NoReplay   bool // a lost quorum is given up without what witnesses saved
	Eager      bool // a recovery is taken for done before the master says so
	Splits     bool // a partition is split although witnesses have what its backups lack
}

// SessionMistakes put known bugs of clients back, for tests that show that the simulator finds them.
type SessionMistakes struct {
	DropAtFailure  bool // an operation whose outcome is not known takes the past with it
	DropAtFailover bool // attempts at another replica carry nothing
	DropAtMove     bool // who moves leaves its past behind
	TellBare       bool // what is told comes with neither the past nor a fence
	FenceUnawaited bool // what comes after a fence does not wait for it
	// An operation does not wait for fences in other shards: what its session read there counts for nothing.
	Unfenced bool
}
