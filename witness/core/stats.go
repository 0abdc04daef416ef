package core

// Stats count what a witness did since it was made.
type Stats struct {
	Accepted, Conflicts, Full uint64 // RECORD
	Refused                   uint64 // questions of every kind, for a reason that is named in the answer
	Dropped, Collections      uint64 // slots freed by GC, and GCs
	Suspects                  uint64 // requests handed back as suspected garbage
	Checks                    uint64
	Ignored                   uint64 // messages that are no questions
}

// Life describes one.
type Life struct {
	Partition uint32
	Term      uint64
	Frozen    bool // in recovery mode
	Held      int  // requests
	Slots     int
	Bytes     int   // of the requests
	Memory    int64 // that is allocated for them
}

// Stats are the counts so far.
func (w *Witness) Stats() Stats { return w.stats }

// Disk is what Config said.
func (w *Witness) Disk() string { return w.config.Disk }

// Lives lists all, by partition and term.
func (w *Witness) Lives() []Life {
	all := make([]Life, 0, w.countLives())
	for _, p := range w.partitions {
		for _, l := range p.lives {
			all = append(all, Life{
				Partition: l.number, Term: l.term, Frozen: l.frozen, Held: l.cache.Held(),
				Slots: l.cache.Slots(), Bytes: l.cache.Bytes(), Memory: l.cache.Memory(),
			})
		}
	}
	return all
}

// LiveBytes is about the size of a snapshot.
func (w *Witness) LiveBytes() int64 {
	const head, perRequest, perLife = 40, 48, 32
	size := int64(len(w.partitions)) * head
	for _, p := range w.partitions {
		for _, l := range p.lives {
			size += perLife + int64(l.cache.Bytes()) + int64(l.cache.Held())*perRequest
		}
	}
	return size
}
