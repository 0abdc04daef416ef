package schedule

// DiskLoss is the loss of disks for good, with their members, at an answer. All other faults end then.
type DiskLoss struct {
	Answer   int   // how many operations were answered for good until then
	Members  []int // the positions of their nodes, and of those of witnesses
	PowerCut bool  // all other processes stop at that moment too, and start again on what is durable
}
