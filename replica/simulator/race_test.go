//go:build race

package simulator

// raceEnabled says that the race detector slows everything down.
const raceEnabled = true
