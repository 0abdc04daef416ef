package capability

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

func TestFind(t *testing.T) {
	for _, name := range Names() {
		for _, spelt := range []string{name, strings.ToLower(name)} {
			if p, err := Find(spelt); err != nil || p.Name != name {
				t.Errorf("Find(%q) = %q, %v", spelt, p.Name, err)
			}
		}
	}
	_, err := Find("Paxos")
	if err == nil || !strings.Contains(err.Error(), `"Paxos"`) ||
		!strings.Contains(err.Error(), strings.Join(Names(), ", ")) {
		t.Errorf("Find(Paxos) must name what was asked for and what there is, got: %v", err)
	}
}

func TestTableIsCompleteAndSorted(t *testing.T) {
	if !slices.IsSorted(Names()) {
		t.Errorf("names are not sorted: %v", Names())
	}
	for _, p := range Table() {
		var kinds []register.Kind
		for _, op := range p.Operations {
			kinds = append(kinds, op.Kind)
			served := op.Worst.RoundTrips > 0 && op.Worst.RoundTrips >= op.Best.RoundTrips
			if served == (op.Refusal != "") {
				t.Errorf("%s %s must either have a cost or a refusal: %+v", p.Name, op.Kind, op)
			}
		}
		want := []register.Kind{register.Read, register.Write, register.RMW}
		if p.Consistency != "linearizable" {
			want = append(want, register.Fence)
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("%s lists %v, want %v", p.Name, kinds, want)
		}
	}
}

func TestCheckMembers(t *testing.T) {
	for _, p := range Table() {
		for n := range 12 {
			err := p.CheckMembers(n)
			gus := p.Name == "Gus"
			if want := n == 3 || n == 4 && gus || n == 5 || n == 7 || n == 9 && gus; (err == nil) != want {
				t.Errorf("%s with %d members: %v", p.Name, n, err)
			}
			if err != nil &&
				!strings.Contains(err.Error(), map[bool]string{false: "3, 5 or 7", true: "3, 4, 5, 7 or 9"}[gus]) {
				t.Errorf("the refusal must name what is allowed: %v", err)
			}
		}
	}
}

func TestRoundTrips(t *testing.T) {
	tests := []struct {
		protocol    string
		kind        register.Kind
		members     int
		best, worst int
	}{
		{"ABD", register.Read, 3, 1, 2},
		{"ABD", register.Write, 5, 2, 2},
		{"ABD", register.RMW, 5, 0, 0},
		{"CURP", register.Read, 3, 0, 2},
		{"CURP", register.Write, 5, 1, 3},
		{"CURPRaft", register.Read, 3, 1, 2},
		{"CURPRaft", register.RMW, 5, 1, 2},
		{"EPaxos", register.Read, 3, 1, 1},
		{"EPaxos", register.RMW, 5, 1, 2},
		{"Gryff", register.Read, 3, 1, 1},
		{"Gryff", register.Read, 5, 1, 2},
		{"Gryff", register.Write, 3, 2, 2},
		{"EPaxos", register.Write, 3, 1, 1},
		{"EPaxos", register.RMW, 5, 1, 2},
		{"Gryff", register.RMW, 3, 2, 2},
		{"Gryff", register.RMW, 7, 2, 3},
		{"GryffRSC", register.Read, 3, 1, 1},
		{"GryffRSC", register.Read, 5, 1, 3},
		{"GryffRSC", register.Write, 3, 2, 2},
		{"GryffRSC", register.Write, 5, 2, 3},
		{"GryffRSC", register.RMW, 3, 2, 2},
		{"GryffRSC", register.RMW, 5, 2, 4},
		{"GryffRSC", register.Fence, 7, 0, 1},
		{"Gus", register.Read, 3, 1, 4},
		{"Gus", register.Write, 5, 1, 2},
		{"Gus", register.RMW, 5, 0, 0},
		{"RMWPaxos", register.Read, 3, 1, 8},
		{"RMWPaxos", register.RMW, 5, 1, 9},
		{"RMWPaxosAtLeastOnce", register.Write, 5, 0, 0},
		{"RMWPaxosAtLeastOnce", register.RMW, 5, 1, 9},
		{"Raft", register.Read, 3, 1, 2},
		{"Raft", register.RMW, 5, 1, 2},
	}
	for _, tt := range tests {
		p, err := Find(tt.protocol)
		if err != nil {
			t.Fatal(err)
		}
		if best, worst := p.RoundTrips(tt.kind, tt.members); best != tt.best || worst != tt.worst {
			t.Errorf("%s %s with %d members: %d to %d, want %d to %d",
				tt.protocol, tt.kind, tt.members, best, worst, tt.best, tt.worst)
		}
	}
}

func TestCheckOperation(t *testing.T) {
	abd, _ := Find("ABD")
	if err := abd.CheckOperation(register.RMW); err == nil || !strings.Contains(err.Error(), "use protocol Gryff") {
		t.Errorf("ABD must refuse an rmw and say what to use, got: %v", err)
	}
	if err := abd.CheckOperation(register.Read); err != nil {
		t.Errorf("ABD must serve reads: %v", err)
	}
	if err := abd.CheckOperation(register.Kind(99)); err == nil {
		t.Error("an unknown kind must be refused")
	}
}

// The sizes of the table are those that the protocols compute from their view.
func TestQuorumsAreTheViews(t *testing.T) {
	for _, n := range Sizes() {
		v := view.View{Members: make([]view.Member, n)}
		if got := Majority.Size(n); got != v.Majority() {
			t.Errorf("majority of %d is %d, the view says %d", n, got, v.Majority())
		}
		if got := AllButOne.Size(n); got != v.FastQuorum(0) {
			t.Errorf("fast quorum of %d is %d, the view says %d", n, got, v.FastQuorum(0))
		}
		if got := AllButTwo.Size(n); got != v.ValidatedQuorum() {
			t.Errorf("validated quorum of %d is %d, the view says %d", n, got, v.ValidatedQuorum())
		}
		for _, p := range Table() {
			if p.Faults(n) != v.Faults() {
				t.Errorf("%s with %d members survives %d, the view says %d", p.Name, n, p.Faults(n), v.Faults())
			}
		}
	}
}

func TestDocumentQuotesTheTable(t *testing.T) {
	const document = "../../docs/protocols.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), Markdown()) {
		t.Errorf("%s does not quote the table; it must contain what `georegister protocols` prints:\n\n%s",
			document, Markdown())
	}
}

// Fewer losses than any minority are for a protocol that counts other quorums then, and where there are such quorums.
func TestCheckFaults(t *testing.T) {
	for _, c := range []struct {
		protocol string
		n, f     int
		refusal  string // a part of it; empty: there is none
	}{
		{"Gus", 3, 1, ""}, {"Gus", 5, 1, ""}, {"Gus", 5, 2, ""}, {"Gus", 7, 1, ""},
		{"Gus", 7, 2, ""}, {"Gus", 9, 2, ""},
		{"Gus", 7, 3, "for n > 5 and n = 2f + 1 no register has both reads and writes of one round trip (theorem 1"},
		{"Gus", 7, 3, "lower it to 1 or 2"},
		{"Gus", 9, 3, "9 replicas have no quorums for f = 3"},
		{"Gus", 3, 2, "from 1 to 1"}, {"Gus", 7, 0, "from 1 to 3"}, {"Gus", 7, 4, "from 1 to 3"},
		{"ABD", 7, 2, "survives the loss of any minority"},
		{"EPaxos", 3, 1, ""}, {"EPaxos", 5, 1, ""}, {"Gryff", 5, 2, ""}, {"GryffRSC", 7, 2, ""}, {"EPaxos", 7, 3, ""},
		{"EPaxos", 5, 3, "from 1 to 2"}, {"Gryff", 3, 2, "from 1 to 1"},
	} {
		row, err := Find(c.protocol)
		if err != nil {
			t.Fatal(err)
		}
		switch err := row.CheckFaults(c.n, c.f); {
		case c.refusal == "" && err != nil:
			t.Errorf("%s, %d of %d: %v", c.protocol, c.f, c.n, err)
		case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s, %d of %d: %v; want %q", c.protocol, c.f, c.n, err, c.refusal)
		}
	}
}

// A value is stored as no more fragments than can be acknowledged, and are left, without those that may be lost.
func TestCheckFragments(t *testing.T) {
	for _, c := range []struct {
		protocol string
		n, f, k  int
		refusal  string // a part of it; empty: there is none
	}{
		{"Gus", 5, 1, 3, ""}, {"Gus", 5, 2, 1, ""}, {"Gus", 5, 0, 1, ""}, {"Gus", 7, 1, 5, ""}, {"Gus", 7, 2, 3, ""},
		{"Gus", 3, 1, 1, ""},
		{"Gus", 5, 1, 4, "5 replicas of which 1 may be lost can have from 1 to 3 data fragments"},
		{"Gus", 5, 0, 2, "5 replicas of which 2 may be lost can have from 1 to 1 data fragments"},
		{"Gus", 5, 1, 0, "from 1 to 3"},
		{"Gryff", 5, 1, 1, "protocol Gryff stores values whole"},
	} {
		row, err := Find(c.protocol)
		if err != nil {
			t.Fatal(err)
		}
		switch err := row.CheckFragments(c.n, c.f, c.k); {
		case c.refusal == "" && err != nil:
			t.Errorf("%s, n = %d, f = %d, k = %d: %v", c.protocol, c.n, c.f, c.k, err)
		case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s, n = %d, f = %d, k = %d: %v; want %q", c.protocol, c.n, c.f, c.k, err, c.refusal)
		}
	}
}
