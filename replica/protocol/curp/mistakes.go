package curp

// Mistakes put known bugs back, one each, for tests that show that they are found. The zero value has none.
// docs/protocols.md says what each one breaks.
type Mistakes struct {
	QuorumOfWitnesses     bool // an update completes when a majority of the witnesses accepted it
	IgnoreTerm            bool // a master takes updates whose client recorded them at the witnesses of another term
	QuorumOfBackups       bool // an operation counts as synced once a majority of the backups holds it
	AnswerDuplicateSynced bool // the duplicate of an unsynced operation is answered as synced
	ReadUnsynced          bool // a read of a key that is not synced is answered at once
	UpdateUnsynced        bool // an update of a key that is not synced is answered at once
	KeepSuffix            bool // backups keep entries that the new master does not have
	DropPending           bool // a new master drops what it received and does not know to be synced
	AnyWitnessLife        bool // recovery takes the data of any life of a witness, such as that of its own term
	SkipReplay            bool // a new master does not ask the witnesses
	ReplayRecovered       bool // a new master asks the witnesses of terms, too, that a later term has recovered
	ServeBeforeSynced     bool // a new master serves before all backups hold what it recovered
	IgnoreLeases          bool // a new master does not wait for leases that it granted to end
	// a member that takes on a view does not know any more until when it granted leases before
	ForgetPromise        bool
	ReadWithoutLease     bool // a master reads without a lease
	BackupFirst          bool // a local read asks the witness after it has read the backup (A.1)
	NoGuard              bool // a local read takes entries that are not known to be synced
	LocalWithoutLease    bool // a local read needs no lease
	AnyProcess           bool // a backup takes a lease that an earlier process of it asked for, by another clock
	DropByHash           bool // records are dropped whatever request they are of
	NewID                bool // a client tries again under a new id
	AnswerBeforePersist  bool // a master answers before its own disk has the operation
	SyncBeforePersist    bool // a backup acknowledges entries before its disk has them
	ServeAfterLoss       bool // a member with an empty disk takes the role that the view gives it
	RestartWithoutReplay bool // a master without backups goes on after a restart with what its disk has
	GCBeforeSync         bool // witnesses drop requests as soon as they are executed
	SettleUnserved       bool // what is synced in a term that does not serve yet becomes part of the state
	CountLearner         bool // a learner's disk counts as a copy before it has the whole state
	KeepDelegations      bool // a master goes on in a later term while former backups may still answer reads
	ServeUncommitted     bool // a master serves in a new term although few may hold its view
	// a former master drops what the next one does not have yet, but will when it has recovered
	FollowAtOnce      bool
	AnyMaster         bool // a master begins a term though it may miss what a former one has answered
	AnyView           bool // what is said in another view of the same epoch counts
	StaleUnsynced     bool // a read that may be stale is told what not all backups hold
	StaleWithoutLease bool // a master without a lease, or a backup of whatever age, answers reads that may be stale
	TrustOldCopy      bool // a member that starts asks nobody whether its disk is an older copy
	TrustOldWitness   bool // a member vouches for a witness without saying what it has heard of its disk
	StaleSyncs        bool // for how long a sync has been under way does not count for how stale a read may be
}
