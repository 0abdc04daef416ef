package build

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/georegister/georegister/replica/view"
)

// subject is what an object is of: its kind, and as much of the rest as that has.
type subject struct {
	kind, cluster, site string
	id                  view.MemberID
}

// namers name an object of every kind. Those of one kind of Kubernetes must differ for whatever they are of.
var namers = []struct {
	kind, of string
	most     int
	name     func(cluster, site string, id view.MemberID) string
}{
	{"Service", "peers", 63, func(c, _ string, _ view.MemberID) string { return PeersName(c) }},
	{"Service", "clients", 63, func(c, _ string, _ view.MemberID) string { return ClientsName(c) }},
	{"Service", "site", 63, func(c, s string, _ view.MemberID) string { return SiteName(c, s) }},
	{"ConfigMap", "boot", 63, func(c, _ string, _ view.MemberID) string { return BootName(c) }},
	{"ConfigMap", "view", 63, func(c, _ string, _ view.MemberID) string { return RecordName(c) }},
	{"Secret", "token-keys", 63, func(c, _ string, _ view.MemberID) string { return SecretName(c) }},
	{"PodDisruptionBudget", "members", 63, func(c, _ string, _ view.MemberID) string { return MembersName(c) }},
	{"PodDisruptionBudget", "witnesses", 63, func(c, _ string, _ view.MemberID) string { return WitnessesName(c) }},
	{"PodMonitor", "monitoring", 63, func(c, _ string, _ view.MemberID) string { return MonitoringName(c) }},
	{"StatefulSet", "member", 52, func(c, s string, id view.MemberID) string {
		return StatefulSetName(c, view.Member{ID: id, Site: s})
	}},
	{"StatefulSet", "witness", 52, func(c, s string, id view.MemberID) string {
		return DedicatedName(c, view.Witness{ID: id, Site: s})
	}},
	{"Pod", "member", 63, func(c, s string, id view.MemberID) string {
		return PodName(c, view.Member{ID: id, Site: s})
	}},
	{"Pod", "witness", 63, func(c, s string, id view.MemberID) string {
		return DedicatedPodName(c, view.Witness{ID: id, Site: s})
	}},
	{"PersistentVolumeClaim", "member", 63, func(c, s string, id view.MemberID) string {
		return VolumeName(c, view.Member{ID: id, Site: s})
	}},
	{"PersistentVolumeClaim", "witness", 63, func(c, s string, id view.MemberID) string {
		return DedicatedVolumeName(c, view.Witness{ID: id, Site: s})
	}},
}

// objects are the names of all that there is of a member and a witness of an id at a site of a cluster, by what they
// are of.
func objects(t *testing.T, cluster, site string, id view.MemberID) map[string]subject {
	all := map[string]subject{}
	for _, n := range namers {
		name, of := n.name(cluster, site, id), subject{kind: n.of, cluster: cluster}
		if of.kind == "site" || of.kind == "member" || of.kind == "witness" {
			of.site = site
		}
		if of.kind == "member" || of.kind == "witness" {
			of.id = id
		}
		if len(name) > n.most || len(validation.IsDNS1035Label(name)) > 0 {
			t.Fatalf("%s %s of %s: %q has %d characters, %d fit; %v", n.kind, n.of, cluster, name, len(name), n.most,
				validation.IsDNS1035Label(name))
		}
		key := n.kind + " " + name
		if other, taken := all[key]; taken && other != of {
			t.Fatalf("%s is the name of %+v and of %+v", key, other, of)
		}
		all[key] = of
	}
	return all
}

var (
	validCluster = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	validSite    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// valid reports whether the API takes the names of a cluster and a site (api/v1alpha1).
func valid(cluster, site string) bool {
	return len(cluster) <= 40 && len(site) <= 20 && validCluster.MatchString(cluster) && validSite.MatchString(site) &&
		!strings.Contains(cluster+" "+site, "--") && site != "peers" && site != "clients"
}

// Names are made of pieces that the operator's own names have, so that many come close to each other: no two objects
// share one.
func TestNoTwoObjectsShareAName(t *testing.T) {
	pieces := []string{"a", "b", "1", "2", "0", "eu", "shop", "peers", "clients", "boot", "view", "members", "witness",
		"witnesses", "data", "secret",
		"monitoring", "abcdefghij"}
	random := rand.New(rand.NewPCG(16, 6))
	word := func(most int) string {
		var all []string
		for range 1 + random.IntN(5) {
			all = append(all, pieces[random.IntN(len(pieces))])
		}
		text := strings.Join(all, "-")
		return strings.TrimRight(text[:min(len(text), most)], "-")
	}
	taken, cut, tried := map[string]subject{}, 0, 0
	for tried < 20_000 {
		cluster, site, id := word(40), word(20), view.MemberID(1+random.IntN(3))
		if random.IntN(4) == 0 {
			id = view.MaxMemberID - view.MemberID(random.IntN(2))
		}
		if !valid(cluster, site) {
			continue
		}
		tried++
		for key, of := range objects(t, cluster, site, id) { // order is irrelevant: each is looked at
			if other, there := taken[key]; there && other != of {
				t.Fatalf("%s is the name of %+v and of %+v", key, other, of)
			}
			if taken[key] = of; strings.Contains(key, cutMark) {
				cut++
			}
		}
	}
	if cut < 1000 {
		t.Errorf("%d names were cut of %d", cut, len(taken))
	}
}

// The longest names fit, and what clients use is never cut.
func TestLongNamesFit(t *testing.T) {
	cluster, site := strings.Repeat("abcdefghi-", 4)[:39]+"z", strings.Repeat("s", 20)
	names := objects(t, cluster, site, view.MaxMemberID)
	for _, whole := range []string{cluster + "--" + site, cluster + "--clients"} {
		if _, there := names["Service "+whole]; !there {
			t.Errorf("there is no Service %s", whole)
		}
	}
	for _, c := range []struct{ got, want string }{
		{StatefulSetName("shop", view.Member{ID: 1, Site: "eu"}), "shop--eu--1"},
		{VolumeName("shop", view.Member{ID: 1, Site: "eu"}), "data-shop--eu--1"},
		{DedicatedPodName("shop", view.Witness{ID: 2, Site: "eu"}), "shop--eu--witness-2-0"},
		{SiteName("shop", "eu"), "shop--eu"}, {ClientsName("shop-eu"), "shop-eu--clients"},
		{StatefulSetName(cluster, view.Member{ID: 7, Site: "eu"}), "abcdefghi-abcdefghi-abcdefghi-abcdefghiz--eu--7"},
		{StatefulSetName(cluster, view.Member{ID: 7, Site: "europe-west1"}),
			"abcdefghi-abcdefghi-ab---LONG--europe-west1--7"},
	} {
		if got := regexp.MustCompile(`---[0-9a-v]{10}--`).ReplaceAllString(c.got, "---LONG--"); got != c.want {
			t.Errorf("the name is %s, want %s", c.got, c.want)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("shop", "eu", uint16(1), "shop-eu", "eu", uint16(1))
	f.Add("shop", "eu-1", uint16(1), "shop-eu", "1", uint16(1))
	f.Add(strings.Repeat("a", 40), "eu", uint16(65535), strings.Repeat("a", 39)+"b", "eu", uint16(65535))
	f.Fuzz(func(t *testing.T, c1, s1 string, id1 uint16, c2, s2 string, id2 uint16) {
		if !valid(c1, s1) || !valid(c2, s2) || id1 == 0 || id2 == 0 {
			return
		}
		second := objects(t, c2, s2, view.MemberID(id2))
		for key, of := range objects(t, c1, s1, view.MemberID(id1)) { // order is irrelevant: each is looked at
			if other, there := second[key]; there && other != of {
				t.Errorf("%s is the name of %+v and of %+v", key, of, other)
			}
		}
	})
}

// Those of the network between sites have a hash that tells them apart, so no site needs to be read from them.
func TestNamesOfTheNetworkFit(t *testing.T) {
	var all []string
	for i, of := range []string{"s", strings.Repeat("c", 40)} {
		for j, to := range []string{"b", strings.Repeat("t", 20)} {
			hash := fmt.Sprintf("%010d", 2*i+j)
			name := NetworkName(of, "a", to, hash)
			if len(name) > maxChaos || len(validation.IsDNS1123Label(name)) > 0 ||
				!strings.HasSuffix(name, cutMark+hash) || slices.Contains(all, name) {
				t.Errorf("the name is %s", name)
			}
			all = append(all, name)
		}
	}
}
