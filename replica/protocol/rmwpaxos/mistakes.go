package rmwpaxos

// Mistakes put known bugs back, for tests that show that they are found. The zero value has none.
type Mistakes struct {
	AckBeforePersist      bool // an acceptor promises and votes before that is durable
	VoteBeforePersist     bool // a proposer proposes while its own promise can be lost
	CompleteBeforePersist bool // a client has its answer before the proposer's own vote is durable
	// a round is granted, and voted for, if its n is that of the one promised, whosever that is
	EqualNumbers  bool
	NotGranted    bool // line 11 takes a consistent r_ack that was not granted to this attempt
	IgnoreHighest bool // of an inconsistent quorum, not the highest vote is written through but the proposer's own
	// What changes nothing is answered after phase 1 although an earlier proposal of it is about (lines 15, 16).
	DenyAtOnce       bool
	ReadInconsistent bool // a read returns the highest value of an inconsistent quorum
	FastBlindly      bool // a proposer that lost its round goes on in the next one without phase 1
	// A proposer that lost a round asks for the next one at once, each time: nobody hands over, has the right of way,
	// or waits.
	KeepDuelling      bool
	AnyAttempt        bool // VOTED counts for whatever the proposer is doing now
	RoundWithoutBoot  bool // the rounds of a restarted proposer are those of the process before
	ForgetBatches     bool // the state does not hold the last batches of members
	ForgetSessions    bool // nor the sessions of clients
	CopyVotes         bool // what a state transfer brings counts as votes
	CountOldVotes     bool // votes of members before a change count after it
	CountDeadDisks    bool // answers of a disk that was lost since still count
	AnsweredByOneSide bool // in a joint view, votes from before it are enough for a read, whoever else has answered
	AdoptBlindly      bool // a state transfer replaces what is newer
	AnyFunction       bool // at least once: what is not idempotent is called all the same
	AnyWrite          bool // at least once: writes are taken
	ResumeAsNew       bool // after a change of the view, a batch is begun again as another one
}
