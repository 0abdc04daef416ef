package simulator

import "github.com/georegister/georegister/replica/simulator/members"

// partitionPaths are what happens to partitions.
func partitionPaths() []string {
	return []string{
		"curp.failover", "curp.failover.meanwhile", "curp.recovering-failover", "curp.recovered", "curp.backup-replaced", "curp.backup-added",
		"curp.witness-lost", "curp.witness-replaced", "curp.falsely-unheard", "curp.handover", "curp.cut-off", "curp.taken-over", "curp.start", "curp.end", "change.crash",
	}
}

// replacementPaths are what happens to the members of worlds with masters.
func replacementPaths() []string {
	return []string{
		"change.dead", "change.alive", "change.grow", "change.shrink", "change.swap", "change.abandoned", "change.removed",
		"curp.member-lost", "curp.forgotten", "curp.alone-by-choice", "curp.torn", "change.rebuilt",
	}
}

// movePaths are what happens to masters that are moved.
func movePaths() []string { return []string{"curp.moved", "curp.moved.meanwhile", "curp.moved-back"} }

// lostQuorumPaths are what happens then.
func lostQuorumPaths() []string {
	return []string{"curp.quorum-lost", "curp.rescued", "curp.rescued.whole", "curp.rescued.shortened", "curp.rescued.behind", "curp.rescued.empty"}
}

// splitPaths are what happens to partitions that are split.
func splitPaths() []string {
	return []string{"curp.split", "curp.split.meanwhile", "curp.split.forgotten", "curp.split.registers", "curp.split-moved"}
}

// dedicatedPaths are what happens to witnesses that have pods of their own.
func dedicatedPaths() []string {
	return []string{"curp.away", "curp.succeeded", "curp.succeeded.meanwhile", "curp.returned", "curp.zones"}
}

// changePaths are what happens in changes of the view.
func changePaths() []string {
	paths := []string{
		"change.dead", "change.alive", "change.crash", "change.record-lost", "change.rebuilt", "change.rebuilt-joint",
		"change.view", "change.crash-in-switch", "change.resumed", "change.removed", "change.learned", "change.other-epoch",
		"change.hurried", "change.abandoned", "change.abandoned.meanwhile",
	}
	for _, kind := range members.ChangeKinds() {
		paths = append(paths, "change."+kind, "change."+kind+".meanwhile")
	}
	return paths
}
