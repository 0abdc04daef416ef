package controllers

import (
	"testing"
	"time"

	"github.com/georegister/georegister/controllers/world"
)

func TestSilencesAreRemembered(t *testing.T) {
	var s silences
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	look := func(answers bool) time.Duration {
		members := []world.Member{{ID: 1, Report: &world.Report{}}, {ID: 2}}
		if answers {
			members[1].Report = &world.Report{}
		}
		s.note(request.NamespacedName, members, now)
		if members[0].SilentFor != 0 {
			t.Errorf("one that answers is silent for %s", members[0].SilentFor)
		}
		now = now.Add(time.Second)
		return members[1].SilentFor
	}
	for i, c := range []struct {
		answers bool
		want    time.Duration
	}{{false, 0}, {false, time.Second}, {false, 2 * time.Second}, {true, 0}, {false, 0}, {false, time.Second}} {
		if got := look(c.answers); got != c.want {
			t.Errorf("look %d: silent for %s, want %s", i, got, c.want)
		}
	}
	s.forget(request.NamespacedName)
	if got := look(false); got != 0 {
		t.Errorf("after it was forgotten: silent for %s", got)
	}
}
