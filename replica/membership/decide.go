package membership

import "slices"

// Decide decides on the next view of one with partitions: who is in it (Members), and if that is as it should be for now, who
// keeps the partitions (Partitions). What the former waits for keeps the latter from nothing.
func Decide(s Snapshot) Decision {
	d := Members(s)
	if d.Changed() {
		return d
	}
	parts := Partitions(s)
	for _, why := range parts.Waits {
		if !slices.Contains(d.Waits, why) {
			d.Waits = append(d.Waits, why)
		}
	}
	parts.Waits = d.Waits
	return parts
}
