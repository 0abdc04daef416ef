package curpraft_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/test/mutants"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", curpraft.Factory) }

// TestMistakes shows, step by step, what clients see of those: random schedules come to some of them too seldom.
func TestMistakes(t *testing.T) {
	found := mutants.Build(t)
	for _, name := range []string{
		"more-than-threshold", "ack-before-persist", "any-term", "keep-accepting", "serve-early", "drop-early",
		"update-unsynced", "heed-acks",
	} {
		found.Run(t, name, "curpraft/"+name, func(t *testing.T) {
			script.Run(t, "testdata/mistakes/"+name+".txt", small)
		})
	}
}

// small is the protocol with few slots for witnesses.
func small(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	config.Tuning.Slots = 64
	return curpraft.Factory(config, journal, known)
}
