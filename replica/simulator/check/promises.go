package check

import (
	"fmt"
	"slices"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/core"
)

// refusesWell reports a refusal of what must not be refused, or one without a reason, for people and for the manager.
func refusesWell(m *witnessv1.Message, q *asked) error {
	switch {
	case m.Kind == witnessv1.Kind_RECORD_REPLY || m.Kind == witnessv1.Kind_CHECK_REPLY: // for a plain conflict
		return nil
	case m.Refused == "":
		return fmt.Errorf("it refuses a question (%v), and does not say why", m.Kind)
	case m.Kind == witnessv1.Kind_END_REPLY:
		return fmt.Errorf("it refuses to end a life: %s", m.Refused)
	case m.Kind == witnessv1.Kind_START_REPLY && q != nil && q.serves:
		return fmt.Errorf("it refuses to begin the life for term %d of partition %d, which has begun: %s", m.Term,
			m.Partition, m.Refused)
	}
	return nil
}

// Tells reports an answer to the manager that does not tell exactly the lives that a witness has, and its disk.
func (w *Witness) Tells(m *witnessv1.Message, core *core.Witness) error {
	lives := core.Lives()
	same := m != nil && m.Accepted && m.Disk == w.disk && len(m.Lives) == len(lives)
	for i := 0; same && i < len(lives); i++ {
		is, told := &lives[i], m.Lives[i]
		same = told.Partition == is.Partition && told.Term == is.Term && told.Frozen == is.Frozen &&
			int(told.Held) == is.Held
	}
	if !same {
		return fmt.Errorf("asked for its lives it answers %v, and on disk %q has %v", m, w.disk, lives)
	}
	return nil
}

// Promises reports answers of a turn that do not tell all promises that were made before they leave. The last one for
// a partition tells of all: who promises more answers.
func (w *Witness) Promises(e *core.Effects, core *core.Witness) error {
	told := map[uint32]bool{} // never ranged over
	for _, envelope := range slices.Backward(slices.Concat(e.Send, e.After)) {
		m := envelope.Message
		promises := m.Kind == witnessv1.Kind_RECORD_REPLY || m.Kind == witnessv1.Kind_RECOVERY_DATA_REPLY
		if !promises || !m.Accepted || told[m.Partition] {
			continue
		}
		told[m.Partition] = true
		if made := core.Promises(m.Partition); m.Promises != made {
			return fmt.Errorf("it tells of %d promises of partition %d, and has made %d (%v)", m.Promises, m.Partition,
				made, m.Kind)
		}
	}
	return nil
}

// Rests reports what the records on disk do not say of a witness all of whose records are durable.
func (w *Witness) Rests(core *core.Witness, partitions int) error {
	lives, durable := core.Lives(), w.durable.Lives()
	same := len(lives) == len(durable)
	for i := 0; same && i < len(lives); i++ {
		is, has := &lives[i], &durable[i]
		same = is.Partition == has.Partition && is.Term == has.Term && is.Frozen == has.Frozen && is.Held == has.Held
	}
	if !same {
		return fmt.Errorf("it has the lives %v, and its disk %v", lives, durable)
	}
	for i := range uint32(partitions) {
		if made, has := core.Promises(i), w.durable.Promises(i); made != has {
			return fmt.Errorf("it has made %d promises of partition %d, and its disk has %d", made, i, has)
		}
	}
	return nil
}
