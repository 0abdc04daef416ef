package build

import (
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// change makes a view joint: some members leave, and n join.
func change(v view.View, joining int, leaving ...view.MemberID) view.View {
	v.Members = slices.Clone(v.Members)
	for i := range v.Members {
		v.Members[i].Leaving = slices.Contains(leaving, v.Members[i].ID)
	}
	for range joining {
		v.Members = append(v.Members, view.Member{ID: v.LastIssued() + 1, Site: "a", Joining: true})
	}
	v.Epoch++
	return v
}

// Whatever may be evicted, each side of the view keeps its majority.
func TestDisruptionBudget(t *testing.T) {
	founded := load(t, "minimal").View
	alone := founded
	alone.Members, alone.Epoch = founded.Members[:1], 2
	for name, c := range map[string]struct {
		view   view.View
		beside int
		want   int
	}{
		"not founded":             {view.View{}, 0, 2},
		"three":                   {founded, 0, 2},
		"three and two left out":  {founded, 2, 4},
		"three and two that join": {change(founded, 2), 0, 4},
		"one for another":         {change(founded, 1, 2), 0, 3},
		"all for others":          {change(founded, 3, 1, 2, 3), 0, 5},
		"alone after a recovery":  {alone, 0, 1},
		"and two that join":       {change(alone, 2), 0, 3},
		"alone with two left out": {alone, 2, 3},
	} {
		in := load(t, "minimal")
		in.View, in.Beside = c.view, c.beside
		if got := disruptionBudget(in).Spec.MinAvailable.IntValue(); got != c.want {
			t.Errorf("%s: %d must stay, want %d", name, got, c.want)
		}
	}
}

func TestAlertsOfAJointView(t *testing.T) {
	in := load(t, "minimal")
	for joining, want := range map[int]string{0: "<= 2", 1: "<= 3", 2: "<= 4"} {
		in.View = change(load(t, "minimal").View, joining)
		for _, a := range alerts(in) {
			if a.name == "GeoRegisterNoFaultTolerated" && !strings.HasSuffix(a.expression, want) {
				t.Errorf("with %d that join: %s, want %s", joining, a.expression, want)
			}
		}
	}
}

// Where the manifest promises less than a minority, members may be too few though a majority of them votes.
func TestAlertsOfFaultsToTolerate(t *testing.T) {
	one := int32(1)
	for protocol, want := range map[string]string{"EPaxos": "<= 4", "Gryff": "<= 4", "ABD": "<= 3"} {
		in := load(t, "minimal")
		in.Cluster.Spec.Protocol, in.Cluster.Spec.FaultTolerance = protocol, &one
		in.View = view.View{Cluster: "c", Epoch: 1, Members: make([]view.Member, 5)}
		i := slices.IndexFunc(alerts(in), func(a alert) bool { return a.name == "GeoRegisterNoFaultTolerated" })
		if i < 0 || !strings.HasSuffix(alerts(in)[i].expression, want) {
			t.Errorf("%s: %+v, want %s", protocol, alerts(in), want)
		}
	}
}
