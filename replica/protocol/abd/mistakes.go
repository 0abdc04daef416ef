package abd

// Mistakes puts known errors back, for tests that show that a checker finds them. The zero value makes none.
type Mistakes struct {
	AckBeforePersist      bool // a second phase is acknowledged before its record is durable
	CompleteBeforePersist bool // the coordinator counts itself as a holder before its record is durable
	ExposeVolatile        bool // a read is told a tag and value that a crash can take back
	SkipWriteBack         bool // a read returns the largest tag though no majority holds it
	ShareTags             bool // a tag comes from the first phase alone: two writes of a coordinator can share it
	TagWithoutBoot        bool // a tag names the member alone, not its disk and process
	NumberWithoutBoot     bool // operations are numbered from 1 in each process
	RereadValue           bool // what is sent or returned is the register's present value, under the chosen tag
	CountTwice            bool // a repeated answer counts again
	CountDeadDisks        bool // answers of a disk that was lost since still count
	// a write's second phase is retried under a new tag; the old one's acknowledgements count
	RetryWithNewTag  bool
	AdoptBlindly     bool // a record of another member replaces what is newer here
	ResumeWithNewTag bool // a write that goes on in another view gets a new tag there
}
