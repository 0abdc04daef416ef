package curp

// Paths lists the paths of the protocol that Config.Count hears of while the view stays what it is.
func Paths() []string {
	return []string{
		"update.fast", "update.synced", "update.rejected", "update.large", "update.retry", "update.duplicate", "update.refused",
		"update.conflict", "read.master", "read.unsynced", "read.lease", "read.local", "read.local-refused",
		"read.stale", "read.stale-local", "read.stale-refused", "sync", "sync.hot", "sync.many", "gc.garbage",
	}
}

// ChangePaths lists those that only a change of the view, or a restart, leads to.
func ChangePaths() []string {
	return []string{
		"update.resumed", "recover.begin", "recover.replayed", "recover.known", "recover.lease", "recover.end",
		"log.truncated", "copy.begin", "copy.end", "member.lost",
	}
}
