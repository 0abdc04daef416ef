package view

import (
	"fmt"
	"slices"
)

// Witness is a process that saves requests which a master has not synced yet (CURP, section 3.2).
type Witness struct {
	ID      MemberID `json:"id"` // of the same numbers as the members': never used again
	Site    string   `json:"site"`
	Address string   `json:"address"` // where members reach it, host:port
	Disk    string   `json:"disk"`    // the disk that it was taken on with; another one has lost what it saved
	// Beside is the member in whose pod it runs, and with whom it is lost. Zero: it has a pod of its own.
	Beside MemberID `json:"beside,omitempty"`
}

// Partition says who keeps a part of the keys, as its master, backups and witnesses (CURP, section 3). The partition at
// index i is the shard i. Protocols without masters have none.
type Partition struct {
	// Term is the epoch of the view in which the partition came to be as it is. It fences those of earlier terms, and
	// is the paper's WitnessListVersion too.
	Term   uint64   `json:"term"`
	Master MemberID `json:"master"`
	// Backups are f members: an operation is synced once all hold it. All other members of the view are learners:
	// they follow the master too, and nobody waits for them, so that any of them can be a backup of a later term
	// without a copy of the state.
	Backups   []MemberID `json:"backups,omitempty"`
	Witnesses []MemberID `json:"witnesses,omitempty"` // f of them; each has a life of its own for this term
	// Formers are the configurations that the master of this term has to recover from, oldest first: a crashed
	// master's, and those of masters that may have crashed while they recovered. The last has the highest term.
	Formers []Former `json:"formers,omitempty"`
	// Empty says that the partition begins again without anything in this term: what it held was lost and given up.
	// Whatever disks of its members have of earlier terms counts for nothing.
	Empty bool `json:"empty,omitempty"`
	// Split is the term in which the partition was split off another one (Parent), of which it has the half of the keys
	// with all that came of them. Zero: it was founded with the cluster.
	Split uint64 `json:"split,omitempty"`
}

// Former is an earlier configuration of a partition. One that served had a master and backups who all noted, before
// that, that they had everything that was to be recovered from earlier ones. So if one of them did not, nothing was
// answered in it.
type Former struct {
	Term      uint64     `json:"term"`
	Master    MemberID   `json:"master"`
	Backups   []MemberID `json:"backups,omitempty"`
	Witnesses []MemberID `json:"witnesses,omitempty"`
}

// Former is the configuration for a later one to recover from.
func (p Partition) Former() Former {
	return Former{
		Term: p.Term, Master: p.Master, Backups: slices.Clone(p.Backups), Witnesses: slices.Clone(p.Witnesses),
	}
}

// Has reports whether a member was the master or a backup: it holds all that was synced.
func (f Former) Has(id MemberID) bool { return f.Master == id || slices.Contains(f.Backups, id) }

// Witness finds a witness of the view by its ID, or returns false.
func (v View) Witness(id MemberID) (Witness, bool) {
	i := slices.IndexFunc(v.Witnesses, func(w Witness) bool { return w.ID == id })
	if i < 0 {
		return Witness{}, false
	}
	return v.Witnesses[i], true
}

// validatePartitions reports what makes partitions unusable: a role of nobody in the view, a member with two roles, a
// witness beside the master that it protects, or a recovery that could miss what was acknowledged.
func (v View) validatePartitions() error {
	for i, w := range v.Witnesses {
		switch {
		case w.ID < 1 || w.ID > MaxMemberID:
			return fmt.Errorf("view: witness %d is outside 1..%d", w.ID, MaxMemberID)
		case v.Index(w.ID) >= 0 || slices.IndexFunc(v.Witnesses, func(o Witness) bool { return o.ID == w.ID }) != i:
			return fmt.Errorf("view: %d is named twice", w.ID)
		case w.Beside != 0 && v.Index(w.Beside) < 0:
			return fmt.Errorf("view: witness %d is beside member %d, which is not in the view", w.ID, w.Beside)
		}
	}
	if v.Founded < 0 || len(v.Partitions) > 0 && v.Founded > len(v.Partitions) {
		return fmt.Errorf("view: %d partitions were founded, and there are %d", v.Founded, len(v.Partitions))
	}
	for i, p := range v.Partitions {
		if err := v.validatePartition(p); err != nil {
			return fmt.Errorf("view: partition %d: %w", i, err)
		}
		if founded := i < v.FoundedPartitions(); founded != (p.Split == 0) || p.Split > p.Term {
			return fmt.Errorf("view: partition %d was split off in term %d, with %d founded and its term %d", i,
				p.Split, v.FoundedPartitions(), p.Term)
		}
	}
	return nil
}

func (v View) validatePartition(p Partition) error {
	if p.Term == 0 || p.Term > v.Epoch {
		return fmt.Errorf("its term %d is outside 1..%d, the view's epoch", p.Term, v.Epoch)
	}
	roles := slices.Concat([]MemberID{p.Master}, p.Backups)
	for i, id := range roles {
		if v.Index(id) < 0 {
			return fmt.Errorf("member %d is not in the view", id)
		}
		if slices.Index(roles, id) != i {
			return fmt.Errorf("member %d has two roles", id)
		}
	}
	for i, id := range p.Witnesses {
		w, known := v.Witness(id)
		switch {
		case !known:
			return fmt.Errorf("witness %d is not in the view", id)
		case slices.Index(p.Witnesses, id) != i:
			return fmt.Errorf("witness %d is named twice", id)
		case w.Beside == p.Master:
			return fmt.Errorf("witness %d is beside the master %d and would be lost with it", id, p.Master)
		}
	}
	if n := len(p.Witnesses); n > 0 && n < len(p.Backups) {
		return fmt.Errorf("it has %d backups, and %d witnesses: what these save is on fewer disks than what is synced",
			len(p.Backups), n)
	}
	if p.Empty && len(p.Formers) > 0 {
		return fmt.Errorf("it begins empty, and recovers from %d terms", len(p.Formers))
	}
	last := uint64(0)
	for _, f := range p.Formers {
		if f.Term <= last || f.Term >= p.Term {
			return fmt.Errorf("it recovers from the terms %d and %d, which do not grow up to its own, %d",
				last, f.Term, p.Term)
		}
		last = f.Term
	}
	return nil
}
