package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// drive follows the decisions until there is none, with members that do at once what is asked of them.
func drive(t *testing.T, v view.View, p Placement, say func(*Snapshot), dead ...view.MemberID) (view.View, Decision) {
	t.Helper()
	for range 60 {
		s := snapshot(v, p, dead...)
		asked := s.Placement.Faults
		for i := range s.Members {
			for j, part := range v.Partitions {
				s.Members[i].Partitions[j].Recovered = part.Master == s.Members[i].Member
			}
		}
		say(&s)
		s.Placement.Faults = min(asked, Faults(v, s.Abandon))
		d := Decide(s)
		if !d.Changed() {
			return v, d
		}
		v = d.Next
	}
	t.Fatalf("it does not end: %+v", v)
	return v, Decision{}
}

func TestMembersChange(t *testing.T) {
	for _, c := range []struct {
		name      string
		n, faults int // before
		join      int
		leave     []view.MemberID
		dead      []view.MemberID
		after     int    // faults
		abandon   int    // after so many rounds; 0: it is not
		want      string // the members, then the partitions
	}{
		{"one is replaced", 3, 1, 1, []view.MemberID{3}, nil, 1, 0,
			"[1 5 7] w[2 6 8]: 1 [5] w[6]; 5 [7] w[8]; 7 [1] w[2]"},
		{"a lost one is replaced", 3, 1, 1, []view.MemberID{3}, []view.MemberID{3}, 1, 0, ""},
		{"three become five", 3, 1, 2, nil, nil, 2, 0, ""},
		{"five become three", 5, 2, 0, []view.MemberID{1, 9}, nil, 1, 0, ""},
		{"five become three, and one is lost", 5, 2, 0, []view.MemberID{1, 9}, []view.MemberID{9}, 1, 0, ""},
		{"three become one", 3, 1, 0, []view.MemberID{1, 5}, nil, 0, 0, "[3] w[4]: 3 [] w[]; 3 [] w[]; 3 [] w[]"},
		{"all are replaced", 3, 1, 3, []view.MemberID{1, 3, 5}, nil, 1, 0, ""},
		{"one is replaced by one", 1, 0, 1, []view.MemberID{1}, nil, 0, 0, "[3] w[4]: 3 [] w[]"},
		{"it is abandoned when newcomers have parts", 3, 1, 1, []view.MemberID{1}, nil, 1, 4, "[1 3 5] w[2 4 6]: "},
		{"it is abandoned", 3, 1, 2, nil, nil, 1, 1, "[1 3 5] w[2 4 6]: 1 [3] w[4]; 3 [5] w[6]; 5 [1] w[2]"},
		{"the newcomer does not come up", 3, 1, 1, []view.MemberID{3}, []view.MemberID{7}, 1, 1, "[1 3 5] w[2 4 6]: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := pairs(t, c.n, c.faults)
			p := Placement{Partitions: c.n, Faults: c.after}
			var newcomers []Founder
			var named []view.Witness
			for i, id := range PairedIDs(v.LastIssued(), c.join) {
				site := string(rune('a' + c.n + i))
				if i < len(c.leave) {
					site = v.Members[v.Index(c.leave[i])].Site
				}
				newcomers = append(newcomers, Founder{ID: id, Site: site, Disk: fmt.Sprint("d", id)})
				if !slices.Contains(c.dead, id) {
					named = append(named,
						view.Witness{ID: WitnessOf(id), Site: site, Disk: fmt.Sprint("w", id), Beside: id})
				}
			}
			joint, err := Change(v, newcomers, c.leave)
			if err != nil {
				t.Fatal(err)
			}
			rounds := 0
			got, d := drive(t, joint, p, func(s *Snapshot) {
				rounds++
				s.Named, s.Abandon = named, c.abandon > 0 && rounds > c.abandon
			}, c.dead...)
			var parts []string
			for i, part := range got.Partitions {
				if len(part.Backups) != c.after || len(part.Witnesses) != c.after || len(part.Formers) > 0 {
					t.Errorf("partition %d is %s", i, text(part))
				}
				_, words, _ := strings.Cut(text(part), ": ")
				parts = append(parts, words)
			}
			var witnesses []view.MemberID
			for _, w := range got.Witnesses {
				witnesses = append(witnesses, w.ID)
			}
			var members []view.MemberID
			for _, m := range got.Members {
				members = append(members, m.ID)
			}
			text := fmt.Sprintf("%v w%v: %s", members, witnesses, strings.Join(parts, "; "))
			if got.Joint() || len(d.Waits) > 0 || len(members) != len(witnesses) || !strings.HasPrefix(text, c.want) {
				t.Errorf("%s, joint %v, %q, want %s", text, got.Joint(), d.Waits, c.want)
			}
		})
	}
}

// A change that makes members fewer, and has lost a majority of those after it, can't be held by a quorum any more.
// The members before it can go on.
func TestAChangeThatNoQuorumHoldsIsAbandoned(t *testing.T) {
	joint, err := Change(pairs(t, 5, 2), nil, []view.MemberID{7, 9})
	if err != nil {
		t.Fatal(err)
	}
	p := Placement{Partitions: 5, Faults: 1}
	s := snapshot(joint, p, 3, 5)
	if d := Decide(s); d.Changed() || len(d.Waits) == 0 {
		t.Errorf("nobody asks for that, and the next view is %+v, waits %q", d.Next, d.Waits)
	}
	s.Abandon = true
	if d := Decide(s); !d.Changed() || d.Next.Joint() ||
		!slices.Equal(ids(d.Next), []view.MemberID{1, 3, 5, 7, 9}) {
		t.Errorf("the next view is %+v, waits %q", d.Next, d.Waits)
	}
	s = snapshot(joint, p, 3, 5, 7)
	s.Abandon = true
	if d := Decide(s); d.Changed() {
		t.Errorf("too few of those before it are left, and the next view is %+v", d.Next)
	}
}

func TestMembersWaitsForWhatIsMissing(t *testing.T) {
	v := pairs(t, 3, 1)
	joint, err := Change(v, []Founder{{ID: 7, Site: "a", Disk: "d7"}}, []view.MemberID{1})
	if err != nil {
		t.Fatal(err)
	}
	p := Placement{Partitions: 3, Faults: 1}
	for _, c := range []struct {
		want string
		say  func(*Snapshot)
	}{
		{"witness 8, beside the newcomer 7, has not named its disk yet", func(*Snapshot) {}},
		{"not held by a quorum", func(s *Snapshot) { s.Members[1].Digest, s.Members[2].Digest = "", "" }},
		{"the record is behind; rebuild it", func(s *Snapshot) {
			s.Members[1].Digest, s.Members[1].Epoch = "later", s.View.Epoch+1
		}},
	} {
		if got, d := drive(t, joint, p, c.say); !got.Joint() || !strings.Contains(strings.Join(d.Waits, "\n"), c.want) {
			t.Errorf("%+v waits for %q, want %q", got, d.Waits, c.want)
		}
	}
}

// After the record was lost, a member holds another view of the epoch that the record has: only a later one is for all.
func TestATornEpochIsLeftBehind(t *testing.T) {
	v := pairs(t, 3, 1)
	s := snapshot(v, Placement{Partitions: 3, Faults: 1})
	s.Members[2].Digest, s.Members[2].Epoch = "other", v.Epoch
	if d := Decide(s); d.Next.Epoch != v.Epoch+1 || text(d.Next.Partitions[0]) != text(v.Partitions[0]) {
		t.Errorf("%+v", d)
	}
	s.Members[1].Digest, s.Members[1].Epoch = "other", v.Epoch
	if d := Decide(s); d.Changed() || !d.Rebuild {
		t.Errorf("the other view is held by a quorum, and the next is %+v", d)
	}
	s.Members[1].Digest = v.Digest()
	s.Members[2].Disk = "another" // it forgot, and is to be replaced
	if d := Decide(s); text(d.Next.Partitions[2]) == text(v.Partitions[2]) {
		t.Errorf("%+v", d)
	}
}

func TestWitnessesThatNobodyNeedsGo(t *testing.T) {
	v, p := placed(t, 3, 1, true)
	v.Partitions = v.Partitions[:1] // 1 [2] w[6]
	s := snapshot(v, p)
	s.Witnesses[0].Disk = "other"
	s.Named = []view.Witness{{ID: 7, Site: "a", Disk: "d7"}, {ID: 4, Site: "a", Disk: "d4"}, {ID: 8, Site: "a"}}
	d := Decide(s)
	if _, lost := d.Next.Witness(4); !lost || len(d.Next.Witnesses) != 4 {
		t.Errorf("%+v", d)
	}
	s = snapshot(d.Next, p)
	s.Witnesses[0].Disk = "other"
	d = Decide(s)
	if _, lost := d.Next.Witness(4); lost || len(d.Next.Witnesses) != 3 {
		t.Errorf("%+v", d)
	}
}

// Fewer members stay than have a part each: those who leave are rid of theirs nevertheless, by default too, where as
// many losses are survived as can be.
func TestSoFewStayThatPartitionsHaveFewerBackups(t *testing.T) {
	for _, c := range []struct {
		n, after int
	}{{3, 1}, {5, 1}, {5, 2}, {7, 3}, {7, 2}} {
		v := pairs(t, c.n, (c.n-1)/2)
		joint, err := Change(v, nil, ids(v)[c.after:])
		if err != nil {
			t.Fatal(err)
		}
		p := Placement{Partitions: c.n, Faults: (c.n - 1) / 2}
		if got, d := drive(t, joint, p, nothing); got.Joint() || got.Size() != c.after {
			t.Errorf("%d become %d: %+v waits for %q", c.n, c.after, got, d.Waits)
		}
	}
}
