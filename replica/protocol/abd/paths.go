package abd

// The paths that an operation or an answer can take, as protocol.Config.Count is told.
const (
	pathReadFast       = "read.fast"       // a majority held the largest tag
	pathReadAdopted    = "read.adopted"    // with the coordinator, which adopts it, a majority holds it
	pathReadWriteBack  = "read.writeback"  // the read took its second phase
	pathWrite          = "write"           // a write finished
	pathWriteResumed   = "write.resumed"   // a write went on with the tag that it got in an earlier view
	pathWriteOvertaken = "write.overtaken" // the own register grew during the first phase
	pathRetryFirst     = "retry.first"     // the first phase asked again
	pathRetrySecond    = "retry.second"    // the second phase asked again
	pathReplyWaits     = "reply.waits"     // an answer waits for the disk
	pathStale          = "reply.stale"     // an answer that nothing waits for
	pathUnavailable    = "unavailable"     // given up without effect
	pathUnknown        = "unknown"         // given up in a write's second phase
	pathUnsupported    = "unsupported"     // an rmw
)

// Paths lists the names that protocol.Config.Count can be told while the view stays what it is.
func Paths() []string {
	return []string{
		pathReadFast, pathReadAdopted, pathReadWriteBack, pathWrite, pathWriteOvertaken, pathRetryFirst,
		pathRetrySecond, pathReplyWaits, pathStale, pathUnavailable, pathUnknown, pathUnsupported,
	}
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return []string{pathWriteResumed} }
