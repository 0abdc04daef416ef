package directed

import (
	"regexp"
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// A soak of a protocol draws each of its kinds, with the numbers of members that the list says, and one of eight schedules
// is one of them where there are other faults.
func TestASoakDrawsEachKind(t *testing.T) {
	for _, k := range kinds {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(k.Name) || k.Is == "" {
			t.Errorf("%q: %q", k.Name, k.Is)
		}
		for _, p := range k.Protocols {
			if _, _, err := catalog.FindVariant(p); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
		}
	}
	for _, v := range catalog.Variants() {
		entry, _, err := catalog.FindVariant(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		some := Of(v.Name, entry.Partitioned != nil, nil)
		drawn, sizes := map[string]int{}, map[string][]int{}
		options := schedule.Options{
			Faults: []faults.Kind{faults.Directed}, RMWs: schedule.ManyRMWs, Partitioned: entry.Partitioned,
		}
		for _, k := range some {
			options.Directed = append(options.Directed, func(seed uint64, o schedule.Options) schedule.Schedule {
				s := k.Draw(seed, o)
				drawn[k.Name]++
				sizes[k.Name] = append(sizes[k.Name], len(s.Environment.Network.Sites))
				return s
			})
		}
		count := func() (all int) {
			for seed := range uint64(1000) {
				if s := schedule.Draw(seed, options); s.Seed != seed {
					t.Fatalf("%s: the schedule of seed %d says that it is of %d", v.Name, seed, s.Seed)
				}
			}
			// order is irrelevant: a sum
			for _, n := range drawn {
				all += n
			}
			return all
		}
		if all := count(); all != 1000 {
			t.Errorf("%s: %d of 1000 schedules are directed, want all", v.Name, all)
		}
		for _, k := range some {
			slices.Sort(sizes[k.Name])
			got := slices.Compact(sizes[k.Name])
			if drawn[k.Name] == 0 || k.Members != nil && !slices.Equal(got, k.Members) {
				t.Errorf("%s: %s is drawn %d times, with %v members, want %v", v.Name, k.Name, drawn[k.Name], got, k.Members)
			}
		}
		clear(drawn)
		options.Faults = []faults.Kind{faults.Directed, faults.Crash}
		if all := count(); all < 80 || all > 170 {
			t.Errorf("%s: %d of 1000 schedules are directed beside others, want one of eight", v.Name, all)
		}
	}
}

// Who asks for a number of members gets schedules with as many, of any protocol.
func TestAskedMembers(t *testing.T) {
	for _, v := range catalog.Variants() {
		entry, _, err := catalog.FindVariant(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range entry.Row.Members {
			if len(Of(v.Name, entry.Partitioned != nil, []int{n})) == 0 {
				t.Errorf("%s has no directed schedules of %d members", v.Name, n)
			}
		}
	}
	if some := Of("gryffrsc", false, []int{7}); len(some) != 4 || some[0].Name != "lost-leaders" {
		t.Errorf("with seven members, gryffrsc has %v", some)
	}
	for _, k := range Of("curp", true, []int{5}) {
		for seed := range uint64(20) {
			s := k.Draw(seed, schedule.Options{Members: []int{5}})
			if n := len(s.Environment.Network.Sites); n != 5 || s.Seed != seed {
				t.Errorf("%s, seed %d: %d members, seed %d", k.Name, seed, n, s.Seed)
			}
		}
	}
}
