package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// placed is a view of members 1 to n, one at each of the sites a, b, ..., with a witness beside each (n+1 to 2n) or as
// many alone, and a partition for each member.
func placed(t testing.TB, n, faults int, dedicated bool) (view.View, Placement) {
	t.Helper()
	var founders []Founder
	var witnesses []view.Witness
	for i := range n {
		id, site := view.MemberID(i+1), string(rune('a'+i))
		founders = append(founders, Founder{ID: id, Site: site, Address: site, Disk: fmt.Sprint("disk-", id)})
		w := view.Witness{ID: view.MemberID(n + i + 1), Site: site, Address: site, Disk: fmt.Sprint("disk-", n+i+1)}
		if !dedicated {
			w.Beside = id
		}
		witnesses = append(witnesses, w)
	}
	p := Placement{Partitions: n, Faults: faults, Dedicated: dedicated}
	v, err := Found("c", founders)
	if err == nil {
		v, err = Place(v, witnesses, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v, p
}

// snapshot has everybody but some heard by everybody, and all hold the view.
func snapshot(v view.View, p Placement, dead ...view.MemberID) Snapshot {
	s := Snapshot{View: v, Placement: p}
	var alive []view.MemberID
	for _, m := range v.Members {
		if !slices.Contains(dead, m.ID) {
			alive = append(alive, m.ID)
		}
	}
	for _, w := range v.Witnesses {
		if !slices.Contains(dead, w.ID) && !slices.Contains(dead, w.Beside) {
			alive = append(alive, w.ID)
			s.Witnesses = append(s.Witnesses, WitnessReport{Witness: w.ID, Disk: w.Disk})
		}
	}
	for _, m := range v.Members {
		if slices.Contains(dead, m.ID) {
			continue
		}
		r := MemberReport{Member: m.ID, Disk: m.Disk, Digest: v.Digest(), Hears: alive}
		for _, part := range v.Partitions {
			said := Part{Term: part.Term, WholeTerm: part.Term, NotedTerm: part.Term}
			if part.Master == m.ID {
				said.Recovered = len(part.Formers) == 0
				said.CaughtUp = slices.DeleteFunc(slices.Clone(alive), func(id view.MemberID) bool {
					return v.Index(id) < 0 || id == m.ID || slices.Contains(part.Backups, id)
				})
			}
			r.Partitions = append(r.Partitions, said)
		}
		s.Members = append(s.Members, r)
	}
	return s
}

// told changes what a member says.
func (s *Snapshot) told(id view.MemberID, change func(*MemberReport)) {
	for i := range s.Members {
		if s.Members[i].Member == id {
			change(&s.Members[i])
		}
	}
}

// deafen has a member say that it does not hear another one.
func (s *Snapshot) deafen(member, other view.MemberID) {
	s.told(member, func(r *MemberReport) {
		r.Hears = slices.DeleteFunc(slices.Clone(r.Hears), func(id view.MemberID) bool { return id == other })
	})
}

func recovered(partition int) func(*MemberReport) {
	return func(r *MemberReport) { r.Partitions[partition].Recovered = true }
}

func caughtUp(partition int, learners ...view.MemberID) func(*MemberReport) {
	return func(r *MemberReport) { r.Partitions[partition].CaughtUp = learners }
}

// copying has a member fetch a copy of the state.
func copying(r *MemberReport) { r.Partitions[0].Copying = true }

// unserved has a member say that it was not whole when a term ended.
func unserved(term uint64) func(*MemberReport) {
	return func(r *MemberReport) { r.Partitions[0].WholeTerm, r.Partitions[0].NotedTerm = term-1, term-1 }
}

// text is a partition in a few words.
func text(p view.Partition) string {
	s := fmt.Sprintf("%d: %d %v", p.Term, p.Master, p.Backups)
	s += fmt.Sprintf(" w%v", p.Witnesses)
	for _, f := range p.Formers {
		s += fmt.Sprintf(" <%d", f.Term)
	}
	return s
}

func TestPartitionsArePlaced(t *testing.T) {
	for _, c := range []struct {
		n, faults int
		dedicated bool
		want      []string
	}{
		{3, 1, false, []string{"1: 1 [2] w[5]", "1: 2 [3] w[6]", "1: 3 [1] w[4]"}},
		{3, 1, true, []string{"1: 1 [2] w[6]", "1: 2 [3] w[4]", "1: 3 [1] w[5]"}},
		{5, 2, false,
			[]string{
				"1: 1 [2 3] w[7 8]", "1: 2 [3 4] w[8 9]", "1: 3 [4 5] w[9 10]", "1: 4 [5 1] w[10 6]",
				"1: 5 [1 2] w[6 7]",
			}},
		{5, 2, true,
			[]string{
				"1: 1 [2 3] w[9 10]", "1: 2 [3 4] w[10 6]", "1: 3 [4 5] w[6 7]", "1: 4 [5 1] w[7 8]",
				"1: 5 [1 2] w[8 9]",
			}},
		{2, 1, false, []string{"1: 1 [2] w[4]", "1: 2 [1] w[3]"}},
		{1, 0, false, []string{"1: 1 [] w[]"}},
	} {
		v, _ := placed(t, c.n, c.faults, c.dedicated)
		var got []string
		for _, p := range v.Partitions {
			got = append(got, text(p))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d members, f = %d, dedicated %v: %q, want %q", c.n, c.faults, c.dedicated, got, c.want)
		}
	}
}

// Two members and witnesses at each of three sites: roles are spread over sites, or over the zones that are given.
func TestRolesAreInDomainsOfTheirOwn(t *testing.T) {
	v := view.View{Cluster: "c", Epoch: 1}
	for id := view.MemberID(1); id <= 6; id++ {
		v.Members = append(v.Members, view.Member{ID: id, Site: []string{"a", "b", "c"}[(id-1)/2], Disk: "d"})
	}
	var witnesses []view.Witness
	for id := view.MemberID(7); id <= 12; id++ {
		witnesses = append(witnesses, view.Witness{ID: id, Site: v.Members[id-7].Site, Beside: id - 6, Disk: "d"})
	}
	p := Placement{Partitions: 6, Faults: 2, Homes: []string{"c"}}
	check := func(next view.View, p Placement) {
		t.Helper()
		for i, part := range next.Partitions {
			var domains []string
			for _, id := range append([]view.MemberID{part.Master}, part.Backups...) {
				domains = append(domains, p.domain(&next, id))
			}
			slices.Sort(domains)
			if len(slices.Compact(domains)) != 3 {
				t.Errorf("partition %d, %s: two in one domain", i, text(part))
			}
			for _, id := range part.Witnesses {
				if p.domain(&next, id) == p.domain(&next, part.Master) {
					t.Errorf("partition %d, %s: witness %d is in the master's domain", i, text(part), id)
				}
			}
		}
	}
	next, err := Place(v, witnesses, p)
	if err != nil {
		t.Fatal(err)
	}
	check(next, p)
	if site := next.Members[next.Index(next.Partitions[0].Master)].Site; site != "c" {
		t.Errorf("the home of partition 0 is c, and its master is at %s", site)
	}
	p.Domains = map[view.MemberID]string{1: "x", 2: "y", 3: "x", 4: "y", 5: "z", 6: "z"}
	if next, err = Place(v, witnesses, p); err != nil {
		t.Fatal(err)
	}
	check(next, p)
}

func TestPlaceRefuses(t *testing.T) {
	v, p := placed(t, 3, 1, false)
	bare := v
	bare.Partitions, bare.Witnesses = nil, nil
	for want, try := range map[string]func() error{
		"has some already": func() error { _, err := Place(v, nil, p); return err },
		"0 of them":        func() error { _, err := Place(bare, nil, Placement{}); return err },
		"faults is -1": func() error {
			_, err := Place(bare, nil, Placement{Partitions: 1, Faults: -1})
			return err
		},
		`site "x", its home`: func() error {
			_, err := Place(bare, nil, Placement{Partitions: 1, Homes: []string{"x"}})
			return err
		},
		"3 backups need": func() error {
			_, err := Place(bare, v.Witnesses, Placement{Partitions: 1, Faults: 3})
			return err
		},
		"needs 1 witnesses that": func() error {
			_, err := Place(bare, v.Witnesses[:1], Placement{Partitions: 1, Faults: 1})
			return err
		},
		"has not named its disk": func() error { _, err := Place(bare, []view.Witness{{ID: 9}}, p); return err },
		"3 is named twice": func() error {
			_, err := Place(bare, []view.Witness{{ID: 3, Disk: "d"}, {ID: 8, Disk: "d"}, {ID: 9, Disk: "d"}}, p)
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What becomes of partition 0, step by step. Of three members it is 1 [2] w[5], of five 1 [2 3] w[7 8].
func TestPartitionsFollowWhatHappens(t *testing.T) {
	for _, c := range []struct {
		name      string
		n, faults int
		steps     []string // the partition after each decision; "" for none, "-" for those that follow
		say       func(step int, s *Snapshot, dead *[]view.MemberID)
		waits     string // in what the last decision waits for
	}{
		{"nothing", 3, 1, []string{""}, func(int, *Snapshot, *[]view.MemberID) {}, ""},
		{"the master is lost", 3, 1, []string{"2: 2 [3] w[6] <1", "", "2: 2 [3] w[6]", ""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{1}
				if step == 2 {
					s.told(2, recovered(0))
				}
			}, ""},
		{"one master after the other is lost", 5, 2, []string{"2: 2 [3 4] w[8 9] <1", "", "3: 3 [4 5] w[9 10] <1 <2"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = [][]view.MemberID{{1}, {1}, {1, 2}}[step]
			}, ""},
		{"so many are lost that none can have its backups", 5, 2, []string{""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{1, 4}
				s.told(5, func(r *MemberReport) { r.Partitions[0].Lost = true })
			}, "once it can have 2 backups: of the members that it hears, [3] can be"},
		{"a master is lost and its backup stays away", 5, 1, []string{""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{1, 2}
			},
			"its master 1 is not heard by a quorum of members, and nobody can take its place: member 2 is not heard"},
		{"a term that never served is nobody's hindrance", 5, 1,
			[]string{"2: 2 [3] w[8] <1", "", "3: 1 [3] w[8] <1 <2"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = [][]view.MemberID{{1}, {1}, {2}}[step]
				s.told(3, unserved(2))
			}, ""},
		{"a term that may have served is", 5, 1, []string{"2: 2 [3] w[8] <1", "3: 3 [4] w[9] <1 <2"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = [][]view.MemberID{{1}, {2}}[step]
			}, ""},
		{"a master that had no part in a term that served is replaced", 5, 1,
			[]string{"2: 2 [3] w[8] <1", "3: 1 [3] w[8] <1 <2", "4: 3 [4] w[9] <1 <2 <3"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = [][]view.MemberID{{1}, {2}, {2}}[step]
				switch step {
				case 1:
					s.told(3, unserved(2)) // but it was whole before it was told of the next term
				case 2:
					s.told(1, unserved(3))
				}
			}, ""},
		{"the longest log is chosen", 5, 2, []string{"2: 3 [2 4] w[7 9] <1"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{1}
				s.told(3, func(r *MemberReport) { r.Partitions[0].Length = 7 })
			}, ""},
		{"all its witnesses are lost with the master", 3, 1, []string{""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{1, 5}
			}, "member 2 hears none of the witnesses [5] of term 1"},
		{"a backup is lost", 5, 2, []string{"2: 1 [3 4] w[8 9] <1", "2: 1 [3 4] w[8 9]"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{2}
				if step == 1 {
					s.told(1, recovered(0))
				}
			}, ""},
		{"a backup is lost and nobody has caught up", 5, 2, []string{"", "2: 1 [3 5] w[8 10] <1"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{2}
				s.told(1, caughtUp(0))
				if step == 1 {
					s.told(1, caughtUp(0, 5))
				}
			}, ""},
		{"a backup is lost in a recovery", 5, 2, []string{"2: 2 [3 4] w[8 9] <1", "3: 2 [4 5] w[9 10] <1 <2"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = [][]view.MemberID{{1}, {1, 3}}[step]
			}, ""},
		{"a backup has to copy the state in a recovery", 5, 1, []string{"2: 2 [3] w[8] <1", "3: 2 [4] w[9] <1 <2"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{1}
				if step == 1 {
					s.told(3, copying)
				}
			}, ""},
		{"a witness is lost", 3, 1, []string{"2: 1 [2] w[6] <1"}, func(step int, s *Snapshot, dead *[]view.MemberID) {
			*dead = []view.MemberID{5}
		}, ""},
		{"a witness has another disk", 3, 1, []string{"2: 1 [2] w[6] <1"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.Witnesses[1].Disk = "other"
			}, ""},
		{"a master has another disk", 3, 1, []string{"2: 2 [3] w[6] <1"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.Members[0].Disk = "other"
			}, ""},
		{"the manager alone does not hear the master", 3, 1, []string{""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.Members = s.Members[1:]
			}, ""},
		{"too few say what they hear", 5, 1, []string{""}, func(step int, s *Snapshot, dead *[]view.MemberID) {
			s.Members[1].Hears, s.Members[2].Hears = nil, nil
			s.Members = s.Members[:4]
			s.Members[0].Member = 5
		}, "too few members"},
		{"a master lost what it had", 3, 1, []string{""}, func(step int, s *Snapshot, dead *[]view.MemberID) {
			*dead = []view.MemberID{3}
			s.told(1, func(r *MemberReport) { r.Partitions[0].Lost = true })
		},
			"its master 1 has lost its disk; member 2 takes its place once it can have 1 backups: of the members " +
				"that it hears, [] can be"},
		{"a master without backups restarted", 1, 0, []string{"2: 1 [] w[] <1"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.told(1, func(r *MemberReport) { r.Partitions[0].Restarted = true })
			}, ""},
		{"one of three does not hear the master", 3, 1, []string{""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.Members[1].Hears = s.Members[1].Hears[1:]
			}, ""},
		{"a member is drained", 3, 1,
			[]string{"2: 1 [2] w[] <1", "2: 1 [2] w[]", "4: 2 [3] w[6] <2", "4: 2 [3] w[6]", ""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.Drained = []view.MemberID{1}
				s.told(s.View.Partitions[0].Master, recovered(0))
			}, ""},
		{"the master and its backup do not hear each other", 3, 1, []string{"2: 1 [3] w[5] <1", "2: 1 [3] w[5]", ""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.told(1, recovered(0))
				s.deafen(1, 2)
				s.deafen(2, 1)
			}, ""},
		{"a master is being cut off, its backups first", 5, 2, []string{"2: 1 [4 5] w[7 8] <1"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				for _, backup := range []view.MemberID{2, 3} {
					s.deafen(1, backup)
					s.deafen(backup, 1)
				}
			}, ""},
		{"a master is cut off from all but one", 5, 2, []string{"2: 2 [3 4] w[8 9] <1"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				for _, other := range []view.MemberID{2, 3, 4} {
					s.deafen(1, other)
					s.deafen(other, 1)
				}
			}, ""},
		{"a master that recovers is being cut off", 5, 2, []string{"2: 2 [3 4] w[8 9] <1", "3: 3 [4 5] w[9 10] <1 <2"},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				*dead = []view.MemberID{1}
				if step == 1 {
					s.deafen(2, 3)
					s.deafen(2, 4)
					s.deafen(3, 2)
					s.deafen(4, 2)
				}
			}, ""},
		{"only the master says that it does not hear its backup", 3, 1, []string{""},
			func(step int, s *Snapshot, dead *[]view.MemberID) {
				s.deafen(1, 2)
			}, ""},
		{"the view is not held", 3, 1, []string{""}, func(step int, s *Snapshot, dead *[]view.MemberID) {
			*dead = []view.MemberID{1}
			s.Members[1].Digest = ""
		}, "not held by a quorum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, p := placed(t, c.n, c.faults, false)
			p.Partitions = 1
			p.Homes = slices.Repeat([]string{"b"}, c.n) // only those that need to move do
			p.Homes[0] = "a"
			for i, want := range c.steps {
				var dead []view.MemberID
				s := snapshot(v, p)
				c.say(i, &s, &dead)
				if len(dead) > 0 {
					s = snapshot(s.View, p, dead...)
					var ignored []view.MemberID
					c.say(i, &s, &ignored)
				}
				s.View.Partitions = s.View.Partitions[:1]
				for j := range s.Members {
					if s.Members[j].Digest != "" {
						s.Members[j].Digest = s.View.Digest()
					}
				}
				d := Decide(s)
				got := ""
				if d.Changed() {
					got = text(d.Next.Partitions[0])
					v = d.Next
				}
				if got != want {
					t.Fatalf("step %d: %q, want %q (%q)", i, got, want, slices.Concat(d.Lines(), d.Waits))
				}
				if i == len(c.steps)-1 && !strings.Contains(strings.Join(d.Waits, "\n"), c.waits) {
					t.Errorf("it waits for %q, want %q", d.Waits, c.waits)
				}
			}
		})
	}
}

// A master that comes back to its home gets its partition again, first as a backup.
func TestAPartitionGoesHome(t *testing.T) {
	v, p := placed(t, 3, 1, false)
	v.Partitions = v.Partitions[:1]
	v.Partitions[0].Master, v.Partitions[0].Backups, v.Partitions[0].Witnesses = 2,
		[]view.MemberID{3}, []view.MemberID{6}
	var got []string
	for range 4 {
		s := snapshot(v, p)
		for i := range s.Members {
			s.Members[i].Partitions[0].Recovered, s.Members[i].Partitions[0].CaughtUp = true, []view.MemberID{1}
		}
		if d := Decide(s); d.Changed() {
			v = d.Next
			got = append(got, text(v.Partitions[0]))
		}
	}
	want := []string{"2: 2 [1] w[] <1", "2: 2 [1] w[]", "4: 1 [2] w[5] <2", "4: 1 [2] w[5]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
