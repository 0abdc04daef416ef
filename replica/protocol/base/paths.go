package base

// Names of paths, as protocol.Config.Count is told, that protocols share.
const (
	PathReplyWaits  = "reply.waits" // an answer waits for the disk
	PathStale       = "reply.stale" // an answer that nothing waits for
	PathUnavailable = "unavailable" // given up without effect
	PathUnknown     = "unknown"     // given up when it may have taken effect
)

// Paths lists them.
func Paths() []string { return []string{PathReplyWaits, PathStale, PathUnavailable, PathUnknown} }
