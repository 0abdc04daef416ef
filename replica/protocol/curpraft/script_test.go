package curpraft_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/script"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", curpraft.Factory) }

// TestMistakes shows, step by step, what clients see of those: random schedules come to some of them too seldom.
func TestMistakes(t *testing.T) {
	for name, m := range map[string]curpraft.Mistakes{
		"MoreThanThreshold": {MoreThanThreshold: true},
		"AckBeforePersist":  {AckBeforePersist: true},
		"AnyTerm":           {AnyTerm: true},
		"KeepAccepting":     {KeepAccepting: true},
		"ServeEarly":        {ServeEarly: true},
		"DropEarly":         {DropEarly: true},
		"UpdateUnsynced":    {UpdateUnsynced: true},
		"HeedAcks":          {HeedAcks: true},
	} {
		t.Run(name, func(t *testing.T) {
			tuning := curpraft.Tuning{Log: raft.DefaultTuning(), Slots: 64}
			script.Run(t, "testdata/mistakes/"+name+".txt", curpraft.FactoryWith(tuning, m))
		})
	}
}
