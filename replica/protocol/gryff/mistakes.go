package gryff

import "github.com/georegister/georegister/replica/protocol/instance"

// Mistakes put known bugs back, one each, for tests that show that the simulator finds them. The zero value
// has none. docs/protocols.md says what each one breaks.
type Mistakes struct {
	AckBeforePersist    bool // acknowledgements leave before what they promise is durable
	AnswerBeforePersist bool // a proxy answers a read before its own adoption is durable
	ReplyVolatile       bool // Read1Reply tells of a value that can still be lost
	SpreadVolatile      bool // Read1 carries a value that the proxy can still lose
	SkipWriteBack       bool // a read returns what a single member may hold
	SameTag             bool // concurrent writes of one coordinator issue one carstamp
	// What is sent in a second phase, or returned, is the register's present value under the chosen carstamp.
	RereadValue bool
	// A write's second phase is retried under a new carstamp; the old one's acknowledgements count.
	RetryWithNewTag bool
	TagWithoutBoot  bool // a restarted coordinator issues the carstamps of its earlier life
	FastOnMerged    bool // the fast path takes merged attributes after a broadcast
	// A majority is a fast quorum, though recovery may then see one member alone of those who agreed.
	FastOnMajority      bool
	AskAllAlone         bool // with three members both others are asked as if each were the only one
	StayAlone           bool // the second of them is asked so when the first does not answer in time
	RecoverInitial      bool // who was asked alone notes the initial attributes, and answers with the merged ones
	CommitBeforePersist bool // a fast commit is told before the coordinator can't forget it
	AnswerOnCommit      bool // an rmw answers before a quorum executed it
	OneBallot           bool // recovery takes the highest promised ballot for the highest accepted one
	BaseNotRecovered    bool // recovery carries deps, but not base
	ForgetPrevious      bool // execution ignores prev
	CountDeadDisks      bool // answers of a disk that was lost since still count
	TrustNewDisk        bool // recovery takes a new disk of the coordinator for the one that proposed
	ReuseNumbers        bool // a new disk's instances have the numbers of the lost one's
	ForgetExecuted      bool // Prepare for a collected instance answers "unknown"
	ForgetSessions      bool // duplicates are not recognised where they are executed
	OrderBySelf         bool // each member executes a component beginning with its own instance
	ResumeWithNewTag    bool // a write that goes on in another view gets a new carstamp there
	ResumeAsNew         bool // an rmw that goes on in another view gets a new instance there
	KeepAgreed          bool // members agree to fast commits in joint views too, and stay with that over changes
	RecoverAsPlain      bool // recovery in a joint view asks how many agreed of the members of both sides together

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

// ofRMWs are those of the commands.
func (m *Mistakes) ofRMWs() instance.Mistakes {
	return instance.Mistakes{
		FastOnMerged: m.FastOnMerged, FastOnMajority: m.FastOnMajority,
		AskAllAlone: m.AskAllAlone, StayAlone: m.StayAlone, RecoverInitial: m.RecoverInitial,
		CommitBeforePersist: m.CommitBeforePersist, AnswerOnCommit: m.AnswerOnCommit,
		CountDeadDisks: m.CountDeadDisks, TrustNewDisk: m.TrustNewDisk, ReuseNumbers: m.ReuseNumbers,
		OneBallot: m.OneBallot, BaseNotRecovered: m.BaseNotRecovered, ForgetPrevious: m.ForgetPrevious,
		ForgetExecuted: m.ForgetExecuted, ForgetSessions: m.ForgetSessions, OrderBySelf: m.OrderBySelf,
		ResumeAsNew: m.ResumeAsNew, KeepAgreed: m.KeepAgreed, RecoverAsPlain: m.RecoverAsPlain,
	}
}
