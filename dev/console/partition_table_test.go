package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/replica/view"
)

// partitioned is a cluster of three members and three partitions, each with a witness; 1 is a, 2 is the witness at a,
// and so on.
func partitioned() dev.Going {
	v := view.View{Epoch: 1, Partitions: []view.Partition{
		{Term: 1, Master: 1, Backups: []view.MemberID{3}, Witnesses: []view.MemberID{4}},
		{Term: 1, Master: 3, Backups: []view.MemberID{5}, Witnesses: []view.MemberID{6}},
		{Term: 1, Master: 5, Backups: []view.MemberID{1}, Witnesses: []view.MemberID{2}},
	}}
	return dev.Going{View: v, Label: func(id view.MemberID) string {
		label := string("abc"[(id-1)/2])
		if id%2 == 0 {
			return label + "/witness"
		}
		return label
	}}
}

func TestPartitionTable(t *testing.T) {
	going := partitioned()
	v := going.View
	v.Partitions[2].Formers = []view.Former{{Term: 1}}
	v.Partitions[2].Term = 2
	rates, now := newRates(), time.Now()
	rows := func(fast, slow uint64, after time.Duration, most int) []string {
		observations := []dev.Observation{
			{ID: 1, Label: "a", PID: 7, Status: &adminv1.StatusResponse{Partitions: []*adminv1.Part{
				{Term: 1, Role: adminv1.PartRole_MASTER, Serving: true, Unsynced: 4, Fast: fast, Slow: slow}, {Term: 1},
				{Term: 2, Role: adminv1.PartRole_BACKUP},
			}}},
			{ID: 3, Label: "b", PID: 8, State: dev.Down},
			{ID: 5, Label: "c", PID: 9, Status: &adminv1.StatusResponse{Partitions: []*adminv1.Part{
				{Term: 1, Fast: 10}, {Term: 1, Role: adminv1.PartRole_BACKUP},
				{Term: 2, Role: adminv1.PartRole_MASTER, Waits: "witness a does not answer"},
			}}},
		}
		var all []string
		for _, line := range rates.partitions(going, observations, most, now.Add(after)) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		return all
	}
	rows(5, 5, 0, 0)
	want := []string{
		"PARTITION STATE MASTER BACKUPS WITNESSES TERM UNSYNCED FAST PATH",
		"0 serving a b b 1 4 75%", "1 unknown b c c 1 - -", "2 recovers c a a 2 0 -",
		"partition 2: c: witness a does not answer",
	}
	if got := rows(8, 6, time.Second, 0); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := rows(8, 6, 2*time.Second, 2); len(got) != 4 || got[3] != "1 more partitions; `status` shows them" {
		t.Errorf("%q", got)
	}
	if got := rates.partitions(dev.Going{}, nil, 0, now); got != nil {
		t.Errorf("without partitions: %q", got)
	}
}

func TestAWitnessShowsInTheTable(t *testing.T) {
	o := observed(7, 1, 1)
	o.Witness = &dev.WitnessObservation{Label: "a/witness", State: dev.Running, PID: 42}
	lines := newRates().table([]dev.Observation{o}, time.Now())
	if !strings.HasSuffix(lines[0], "WITNESS") || !strings.HasSuffix(lines[1], "42") {
		t.Errorf("%q", lines)
	}
	o.Witness = &dev.WitnessObservation{Label: "a/witness", State: dev.Crashed, Reason: "disk full"}
	lines = newRates().table([]dev.Observation{o}, time.Now())
	if !strings.HasSuffix(lines[1], "crashed") || lines[2] != "a/witness crashed: disk full" {
		t.Errorf("%q", lines)
	}
}

// The table has a line for a partition that is new, and goes on to tell how fast the updates of all are.
func TestTableOfPartitionsThatGrow(t *testing.T) {
	going, rates, now := partitioned(), newRates(), time.Now()
	rows := func(fast uint64) []string {
		status := &adminv1.StatusResponse{}
		for range going.View.Partitions {
			status.Partitions = append(status.Partitions,
				&adminv1.Part{Term: 1, Fast: fast, Role: adminv1.PartRole_MASTER, Serving: true})
		}
		now = now.Add(time.Second)
		return rates.partitions(going, []dev.Observation{{ID: 1, Label: "a", PID: 7, Status: status}}, 0, now)
	}
	rows(5)
	if got := rows(9); len(got) != 4 || !strings.HasSuffix(got[1], "100%") {
		t.Errorf("%q", got)
	}
	going.View.Partitions = append(going.View.Partitions, view.Partition{Term: 1, Master: 1})
	if got := rows(10); len(got) != 5 || !strings.HasPrefix(got[4], "3          serving  a") {
		t.Errorf("%q", got)
	}
	if got := rows(14); len(got) != 5 || !strings.HasSuffix(got[4], "100%") {
		t.Errorf("%q", got)
	}
}
