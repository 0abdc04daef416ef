package gus

import "github.com/georegister/georegister/replica/register"

// Mistakes puts known errors back, for tests that show that a checker finds them. The zero value makes none.
type Mistakes struct {
	AckBeforePersist      bool // members answer before what they tell of is durable
	ExposeVolatile        bool // READ says that its reader holds what a crash can take back
	CompleteBeforePersist bool // the coordinator counts itself as a holder before its record is durable
	// Line 25: with three members, a tag's writer counts as a holder while it may still change the tag.
	CountWriter bool
	HeldIsStale bool // a member that held a tag calls it stale once it holds a larger one
	AdoptOlder  bool // a piggybacked value is adopted though the member has a newer one
	// With four or more, a read returns what a quorum holds though its writer may change the tag.
	ReadSpeculative    bool
	KeepStale          bool // a writer keeps its tag though not enough found it newer than theirs
	IgnoreLocks        bool // a member votes for a tag of a write's though it has promised a later ballot
	CommitWithoutValue bool // a COMMIT brings no value: who has not got the write stores an empty one
	// As in public code: the value of a stale WRITE is kept under the member's own tag, and COMMIT looks for it under
	// the writer's.
	StoreUnderOwnTag bool
	DropEarlyCommit  bool // a COMMIT that overtakes its WRITE finds nothing to commit, and is answered all the same
	NeverRecover     bool // a read waits for the writer's word, for ever: nobody else has the write decided
	ForgetVotes      bool // recovery decides for the tag that it found, whatever others have voted for
	// A write, or a read that has one decided, waits for members that can't tell what they have said of it.
	WaitForForgetful  bool
	TagAlong          bool // section 5.2: a read joins another one that has been under way for a while
	ShareTags         bool // a tag comes from the register alone: two writes of a coordinator can share it
	TagWithoutBoot    bool // a tag names the member alone, not its disk and process
	NumberWithoutBoot bool // operations are numbered from 1 in each process
	CountDeadDisks    bool // answers of a disk that was lost since still count
	AdoptAsFinal      bool // what a state transfer brings counts as final
	ResumeWithNewTag  bool // a write that goes on in another view gets a new tag there
	// Where holding is voting, the writer's own member adopts the tag from a reader while it may still change.
	AdoptOwn bool
	// Relaxed: a writer changes its tag as soon as a majority has answered (Q_W = 4 with seven members).
	SmallWriteQuorum bool
	HeldByReadQuorum bool // relaxed: a read returns what a majority holds though its writer may change the tag
	// Relaxed: a write that goes on in another view gets another tag though some hold its first one.
	RetagHeld bool
	// Relaxed: who voted for a tag counts as a holder, though it says to its writer that it is none.
	CountVotes     bool
	RejoinAsHolder bool // relaxed: a lost disk's next one says of open writes what those that it copied have said
}

// shelf is the paper's temporary storage, for mistakes in its use: of each write that has arrived, whether its value is
// found there. Nil without them.
type shelf map[placed]bool

type placed struct {
	key    string
	origin register.Carstamp
}

func (s shelf) put(key []byte, origin register.Carstamp, found bool) {
	if s != nil {
		s[placed{string(key), origin}] = found
	}
}

func (s shelf) get(key []byte, origin register.Carstamp) (found, arrived bool) {
	if s == nil {
		return true, true
	}
	found, arrived = s[placed{string(key), origin}]
	return found || !arrived, arrived
}
