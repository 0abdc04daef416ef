package layered

// Names of the paths that are counted.
const (
	pathWrite      = "layered.write"
	pathWrittenOut = "layered.metadata"
	// The metadata is written, and disks were lost meanwhile: others store their fragments first.
	pathHeldBack   = "layered.held-back"
	pathRead       = "layered.read"
	pathAgain      = "layered.read-again" // fewer than k have fragments: the value is over
	pathWide       = "layered.read-wide"  // members beyond the nearest k were asked
	pathDropped    = "layered.dropped"
	pathRebuilt    = "layered.rebuilt"
	pathRepairOver = "layered.repair-over" // the register had something else by then, or the fragment had come
	pathRepaired   = "layered.repaired"    // a member that had missed its fragment has it
	pathAbandoned  = "layered.abandoned"   // a value of which fewer than k fragments exist was never written
)

// Paths lists what random schedules with lost disks take.
func Paths() []string {
	return []string{pathWrite, pathWrittenOut, pathRead, pathWide, pathDropped, pathRebuilt, pathAbandoned}
}

// HastyPaths lists what they take where fragments go at once.
func HastyPaths() []string { return []string{pathAgain, pathDropped} }

// RepairPaths lists what they take besides where most members miss fragments.
func RepairPaths() []string { return []string{pathRepaired, pathRepairOver} }
