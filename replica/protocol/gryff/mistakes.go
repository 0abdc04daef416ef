package gryff

// Mistakes put known bugs back, one each, for tests that show that the simulator finds them. The zero value
// has none. docs/protocols.md says what each one breaks.
type Mistakes struct {
	AckBeforePersist    bool // acknowledgements leave before what they promise is durable
	AnswerBeforePersist bool // a proxy answers a read before its own adoption is durable
	ReplyVolatile       bool // Read1Reply tells of a value that can still be lost
	SpreadVolatile      bool // Read1 carries a value that the proxy can still lose
	SkipWriteBack       bool // a read returns what a single member may hold
	SameTag             bool // concurrent writes of one coordinator issue one carstamp
	TagWithoutBoot      bool // a restarted coordinator issues the carstamps of its earlier life
	FastOnMerged        bool // the fast path takes merged attributes after a broadcast
	CommitBeforePersist bool // a fast commit is told before the coordinator can't forget it
	AnswerOnCommit      bool // an rmw answers before a quorum executed it
	OneBallot           bool // recovery takes the highest promised ballot for the highest accepted one
	BaseNotRecovered    bool // recovery carries deps, but not base
	ForgetPrevious      bool // execution ignores prev
	ForgetExecuted      bool // Prepare for a collected instance answers "unknown"
	ForgetSessions      bool // duplicates are not recognised where they are executed
	OrderBySelf         bool // each member executes a component beginning with its own instance
	AdoptBlindly        bool // a record of another member replaces what is newer here
	ResumeWithNewTag    bool // a write that goes on in another view gets a new carstamp there
	ResumeAsNew         bool // an rmw that goes on in another view gets a new instance there
	KeepUnchanged       bool // pre-accepts are unchanged in joint views too, and stay so over changes
	RecoverAsPlain      bool // recovery in a joint view asks how many agreed of the members of both sides together
}

// Paths lists the paths of the protocol that Config.Count hears of while the view stays what it is.
func Paths() []string {
	return []string{
		"read.fast", "read.write-back", "write", "register.retry",
		"rmw.fast", "rmw.slow", "rmw.again", "rmw.retry", "rmw.duplicate", "rmw.cycle",
		"recover.begin", "recover.committed", "recover.accepted", "recover.fast", "recover.no-op", "recover.preempted",
		"state.installed",
	}
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return []string{"write.resumed", "rmw.resumed"} }
