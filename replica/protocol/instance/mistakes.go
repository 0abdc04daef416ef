package instance

// Mistakes put known bugs back, one each, for tests that show that the simulator finds them. The zero value has none.
// Protocols list those that are theirs too; docs/protocols.md says what each one breaks.
type Mistakes struct {
	FastOnMerged bool // the fast path takes merged attributes after a broadcast
	// A majority is a fast quorum, though recovery may then see one member alone of those who agreed.
	FastOnMajority      bool
	AskAllAlone         bool // with three members both others are asked as if each were the only one
	StayAlone           bool // the second of them is asked so when the first does not answer in time
	RecoverInitial      bool // who was asked alone notes the initial attributes, and answers with the merged ones
	CommitBeforePersist bool // a fast commit is told before the coordinator can't forget it
	AnswerOnCommit      bool // a command answers before it was executed
	OneBallot           bool // recovery takes the highest promised ballot for the highest accepted one
	BaseNotRecovered    bool // recovery carries deps, but not base
	ForgetPrevious      bool // execution ignores prev
	CountDeadDisks      bool // answers of a disk that was lost since still count
	TrustNewDisk        bool // recovery takes a new disk of the coordinator for the one that proposed
	ReuseNumbers        bool // a new disk's instances have the numbers of the lost one's
	ForgetExecuted      bool // Prepare for a collected instance answers "unknown"
	ExecutedGoesBack    bool // an instance that is executed after a later one of its writer hides that one's execution
	ForgetSessions      bool // duplicates are not recognised where they are executed
	OrderBySelf         bool // each member executes a component beginning with its own instance
	OrderByNumber       bool // a component is executed without regard to seq
	AnswerNamed         bool // a write is answered on commit although execution may refuse it as too old
	ResumeAsNew         bool // a command that goes on in another view gets a new instance there
	KeepAgreed          bool // members agree to fast commits in joint views too, and stay with that over changes
	RecoverAsPlain      bool // recovery in a joint view asks how many agreed of the members of both sides together
}
