package epaxos_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/script"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", epaxos.Factory) }

// TestMistakesInChanges shows, step by step, how those mistakes let members disagree: each needs a change of the view
// that goes on while some of them are cut off.
func TestMistakesInChanges(t *testing.T) {
	for name, m := range map[string]epaxos.Mistakes{
		"KeepAgreed":     {KeepAgreed: true},
		"RecoverAsPlain": {RecoverAsPlain: true},
	} {
		t.Run(name, func(t *testing.T) { script.Run(t, "testdata/mistakes/"+name+".txt", epaxos.FactoryWith(m)) })
	}
}
