package simulator

// sessionPaths are what happens in schedules with sessions.
func sessionPaths() []string {
	return []string{
		"session.depends", "session.move", "session.die", "session.tell", "session.fence", "session.fence-of-something",
		"session.barrier",
	}
}
