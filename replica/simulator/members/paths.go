package members

// PartitionPaths are what happens to partitions.
func PartitionPaths() []string {
	return []string{
		"curp.failover", "curp.failover.meanwhile", "curp.recovering-failover", "curp.recovered", "curp.backup-replaced", "curp.backup-added",
		"curp.witness-lost", "curp.witness-replaced", "curp.falsely-unheard", "curp.handover", "curp.cut-off", "curp.taken-over", "curp.start", "curp.end", "change.crash",
	}
}

// ReplacementPaths are what happens to the members of worlds with masters.
func ReplacementPaths() []string {
	return []string{
		"change.dead", "change.alive", "change.grow", "change.shrink", "change.swap", "change.abandoned", "change.removed",
		"curp.member-lost", "curp.forgotten", "curp.alone-by-choice", "curp.torn", "change.rebuilt",
	}
}

// MovePaths are what happens to masters that are moved.
func MovePaths() []string { return []string{"curp.moved", "curp.moved.meanwhile", "curp.moved-back"} }

// LostQuorumPaths are what happens then.
func LostQuorumPaths() []string {
	return []string{"curp.quorum-lost", "curp.rescued", "curp.rescued.whole", "curp.rescued.shortened", "curp.rescued.behind", "curp.rescued.empty"}
}

// SplitPaths are what happens to partitions that are split.
func SplitPaths() []string {
	return []string{"curp.split", "curp.split.meanwhile", "curp.split.forgotten", "curp.split.registers", "curp.split-moved"}
}

// DedicatedPaths are what happens to witnesses that have pods of their own.
func DedicatedPaths() []string {
	return []string{"curp.away", "curp.succeeded", "curp.succeeded.meanwhile", "curp.returned", "curp.zones"}
}

// ChangePaths are what happens in changes of the view.
func ChangePaths() []string {
	paths := []string{
		"change.dead", "change.alive", "change.crash", "change.record-lost", "change.rebuilt", "change.rebuilt-joint",
		"change.view", "change.crash-in-switch", "change.resumed", "change.removed", "change.learned", "change.other-epoch",
		"change.hurried", "change.abandoned", "change.abandoned.meanwhile",
	}
	for _, kind := range ChangeKinds() {
		paths = append(paths, "change."+kind, "change."+kind+".meanwhile")
	}
	return paths
}

// largest is how many members a change may lead to, where there were not more before.
const largest = 7

// ChangeKinds are what a change does.
func ChangeKinds() []string {
	return []string{"grow", "grow-from-one", "shrink", "swap", "swap-several"}
}

func kindOf(size, join, leave int) string {
	switch {
	case join > leave && size == 1:
		return "grow-from-one"
	case join > leave:
		return "grow"
	case join < leave:
		return "shrink"
	case join > 1:
		return "swap-several"
	}
	return "swap"
}
