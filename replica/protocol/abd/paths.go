package abd

import (
	"github.com/georegister/georegister/replica/protocol/base"
)

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
	pathUnsupported    = "unsupported"     // an rmw
)

// Paths lists the names that protocol.Config.Count can be told while the view stays what it is.
func Paths() []string {
	return append(base.Paths(), pathReadFast, pathReadAdopted, pathReadWriteBack, pathWrite, pathWriteOvertaken,
		pathRetryFirst, pathRetrySecond, pathUnsupported)
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return []string{pathWriteResumed} }
