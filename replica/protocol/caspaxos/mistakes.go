package caspaxos

// Mistakes put known bugs back, for tests that show that they are found. The zero value has none.
type Mistakes struct {
	AckBeforePersist      bool // an acceptor answers before its record is durable
	CompleteBeforePersist bool // a client has its answer before the coordinator's own acceptor is durable
	IgnoreAccepted        bool // a coordinator builds on its own state, whatever others have accepted
	ForgetChanges         bool // the state does not hold the last changes of members
	ForgetSessions        bool // nor the sessions of clients
	AdoptBlindly          bool // a state transfer replaces what is newer
	ResumeAsNew           bool // after a change of the view, a change of the key is begun again as another one
}
