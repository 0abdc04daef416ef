package epaxos

import "github.com/georegister/georegister/replica/protocol/instance"

// Mistakes put known bugs back, one each, for tests that show that the simulator finds them. The zero value
// has none. docs/protocols.md says what each one breaks.
type Mistakes struct {
	AckBeforePersist bool // votes leave before they are durable
	FastOnMerged     bool // the fast path takes merged attributes after a broadcast
	// A majority is a fast quorum, though recovery may then see one member alone of those who agreed.
	FastOnMajority      bool
	AskAllAlone         bool // with three members both others are asked as if each were the only one
	StayAlone           bool // the second of them is asked so when the first does not answer in time
	RecoverInitial      bool // who was asked alone notes the initial attributes, and answers with the merged ones
	CommitBeforePersist bool // a fast commit is told before the coordinator can't forget it
	AnswerOnCommit      bool // reads and rmws are answered on commit, from what was executed until then
	OneBallot           bool // recovery takes the highest promised ballot for the highest accepted one
	CountDeadDisks      bool // answers of a disk that was lost since still count
	TrustNewDisk        bool // recovery takes a new disk of the coordinator for the one that proposed
	ReuseNumbers        bool // a new disk's instances have the numbers of the lost one's
	ForgetExecuted      bool // Prepare for a collected instance answers "unknown"
	ExecutedGoesBack    bool // an instance that is executed after a later one of its writer hides that one's execution
	ForgetSessions      bool // duplicates are not recognised where they are executed, be they rmws or writes
	OrderBySelf         bool // each member executes a component beginning with its own instance
	OrderByNumber       bool // components are executed without regard to seq, though writes are answered on commit
	AnswerNamed         bool // a write is answered on commit although execution may refuse its id as too old
	ResumeAsNew         bool // a command that goes on in another view gets a new instance there
	KeepAgreed          bool // members agree to fast commits in joint views too, and stay with that over changes
	RecoverAsPlain      bool // recovery in a joint view asks how many agreed of the members of both sides together
}

func (m *Mistakes) ofCommands() instance.Mistakes {
	return instance.Mistakes{
		FastOnMerged: m.FastOnMerged, FastOnMajority: m.FastOnMajority,
		AskAllAlone: m.AskAllAlone, StayAlone: m.StayAlone, RecoverInitial: m.RecoverInitial,
		CommitBeforePersist: m.CommitBeforePersist, AnswerOnCommit: m.AnswerOnCommit,
		CountDeadDisks: m.CountDeadDisks, TrustNewDisk: m.TrustNewDisk, ReuseNumbers: m.ReuseNumbers,
		OneBallot: m.OneBallot, ForgetExecuted: m.ForgetExecuted, ExecutedGoesBack: m.ExecutedGoesBack,
		ForgetSessions: m.ForgetSessions,
		OrderBySelf:    m.OrderBySelf, OrderByNumber: m.OrderByNumber, AnswerNamed: m.AnswerNamed,
		ResumeAsNew: m.ResumeAsNew, KeepAgreed: m.KeepAgreed, RecoverAsPlain: m.RecoverAsPlain,
	}
}
