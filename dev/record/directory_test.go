package record

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
)

func manifest(t *testing.T, spec string) *v1alpha1.GeoRegisterCluster {
	t.Helper()
	m, err := v1alpha1.Decode(
		[]byte("apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: demo}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const threeSites = "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}]}"

func TestDirectoryIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first, err := Open(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	newcomer := first.Record.Newcomer("d")
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	if again.Record.Cluster != first.Record.Cluster || again.Record.Find(newcomer) == nil || again.Record.Issued != 4 {
		t.Errorf("read back as %+v, want %+v", again.Record, first.Record)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, recordFile)); err != nil {
		t.Errorf("a directory that was asked for is gone: %v", err)
	}
}

// A directory of a version in which members never changed is gone on with: the members tell which view they hold.
func TestDirectoryOfAnEarlierVersion(t *testing.T) {
	path := t.TempDir()
	earlier := `{"cluster": "demo-1", "protocol": "Gryff", "shards": 4, "formed": true, "members": [
		{"id": 1, "site": "a", "label": "a"}, {"id": 2, "site": "b", "label": "b", "wiped": true}, {"id": 3, "site": "c", "label": "c"}]}`
	if err := os.WriteFile(filepath.Join(path, recordFile), []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	r := d.Record
	if r.Issued != 3 || r.Newcomer("d") != 4 || d.Member(r.Members[1]) != filepath.Join(path, "members", "b") {
		t.Errorf("read as %+v", r)
	}
}

func TestDirectoryRefusesAnotherTopology(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		"{protocol: ABD, sites: [{name: a}, {name: b}, {name: c}]}": "made with protocol Gryff, the " +
			"manifest has ABD",
		"{protocol: Gryff, shards: 9, sites: [{name: a}, {name: b}, {name: c}]}": "made with shards 2, the " +
			"manifest has 9",
		"{protocol: Gryff, sites: [{name: a, members: 3}]}": "made with sites [a b c], the manifest has [a-1 a-2 a-3]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]}": "the manifest " +
			"has [a b c d e]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], storage: {durability: Memory}}": "",
	} {
		_, err := Open(path, manifest(t, spec))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	d.Record.View.Epoch = 1
	if err := d.save(); err != nil {
		t.Fatal(err)
	}
	memory := manifest(t, "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], storage: {durability: Memory}}")
	if _, err := Open(path, memory); err == nil || !strings.Contains(err.Error(), "nothing is left") {
		t.Errorf("a cluster in memory that has ended: %v", err)
	}
	if err := os.WriteFile(filepath.Join(path, recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, manifest(t, threeSites)); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged record: %v", err)
	}
}

func TestTemporaryDirectoryGoes(t *testing.T) {
	d, err := Open("", manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", d.Path, err)
	}
}

func TestPorts(t *testing.T) {
	members := New(manifest(t, threeSites)).Members
	if err := Assign(members, nil, nil, 0, false); err != nil {
		t.Fatal(err)
	}
	seen := map[int]string{}
	for _, m := range members {
		for _, port := range []int{m.Ports.Redis, m.Ports.GRPC, m.Ports.Peer, m.Ports.Admin, m.Ports.HTTP} {
			if other, twice := seen[port]; twice || port < 1024 || port > lastPort {
				t.Errorf("port %d of %s is out of range or %s's too", port, m.Label, other)
			}
			seen[port] = m.Label
		}
	}
	taken, err := net.Listen("tcp", Loopback(0))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	base, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if err := Assign(members, nil, nil, base, false); err == nil ||
		!strings.Contains(err.Error(), "choose another --redis-base-port") {
		t.Errorf("a base port that is taken: %v", err)
	}
	kept := members[2].Ports
	members[2].Ports.Admin = base // of an earlier run, and taken since
	if err := Assign(members, nil, nil, 0, false); err != nil {
		t.Fatal(err)
	}
	if got := members[2].Ports; got.Admin == base || got.GRPC != kept.GRPC || got.Peer != kept.Peer {
		t.Errorf("ports %+v; those that are free should be kept of %+v", got, kept)
	}
}

// The view tells where members are, so they wait for their ports until the processes of a run that was killed ended.
func TestPortsThatAreInTheViewAreWaitedFor(t *testing.T) {
	members := New(manifest(t, threeSites)).Members
	if err := Assign(members, nil, nil, 0, false); err != nil {
		t.Fatal(err)
	}
	port := members[1].Ports.Peer
	outlives, err := net.Listen("tcp", Loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	picker := portPicker{viewed: true}
	err = picker.assign(members, nil, 0)
	picker.release()
	if err == nil || !strings.Contains(err.Error(), "where the others look for b, is taken") {
		t.Errorf("a port that is taken: %v", err)
	}
	assigned := make(chan error)
	go func() { assigned <- Assign(members, nil, nil, 0, true) }()
	if err := outlives.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-assigned; err != nil || members[1].Ports.Peer != port {
		t.Errorf("the port became free, and the member is at %d (%v), not %d", members[1].Ports.Peer, err, port)
	}
}

const curpThree = "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}]}"

func TestMembersAndWitnessesOfARecord(t *testing.T) {
	r := New(manifest(t, curpThree))
	var got []string
	r.Newcomer("d")
	d := &Directory{Path: "data", Record: r}
	for _, m := range r.Members {
		got = append(got,
			fmt.Sprint(r.Label(m.ID), " ", m.ID, " ", r.Label(m.Witness), " ", m.Witness, " in ", d.Beside(m)))
	}
	want := []string{
		"a 1 a/witness 2 in data/members/a/witness", "b 3 b/witness 4 in data/members/b/witness",
		"c 5 c/witness 6 in data/members/c/witness", "d 7 d/witness 8 in data/members/d.7/witness",
	}
	if !slices.Equal(got, want) || r.Issued != 8 || r.Shards != 3 || r.Faults != 1 {
		t.Errorf("%q of %+v", got, r)
	}
	if other := New(manifest(t, threeSites)); other.Members[1].Witness != 0 || other.Partitioned() {
		t.Errorf("protocol Gryff has witnesses: %+v", other)
	}
}

func TestAWitnessHasItsOwnPort(t *testing.T) {
	r := New(manifest(t, curpThree))
	if err := Assign(r.Members, nil, nil, 0, false); err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Members {
		if m.Ports.Witness == 0 || m.Ports.Witness == m.Ports.Peer {
			t.Errorf("%+v", m)
		}
	}
	taken, err := net.Listen("tcp", Loopback(r.Members[1].Ports.Witness))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	picker := portPicker{viewed: true}
	defer picker.release()
	if err := picker.assign(r.Members, nil, 0); err == nil ||
		!strings.Contains(err.Error(), "where the others look for b") {

		t.Errorf("%v", err)
	}
}

func TestWhereWitnessesAreNeverChanges(t *testing.T) {
	r := New(
		manifest(t,
			"{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}], curp: {witness: {placement: Dedicated}}}"))
	err := r.fits(New(manifest(t, curpThree)))
	if err == nil || !strings.Contains(err.Error(), "dedicated witnesses true, the manifest has false") {
		t.Errorf("%v", err)
	}
}

// A home that is given counts before that of the manifest; none counts where nobody lives.
func TestHomes(t *testing.T) {
	r := New(manifest(t, "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}], shards: 5, homes: [c, c]}"))
	r.Moved = []string{"b", "", "gone"}
	var homes []string
	for i := range r.Shards {
		homes = append(homes, r.Home(i, []string{"a", "b", "c"}))
	}
	if got := strings.Join(homes, ","); got != "b,c,,," {
		t.Errorf("homes %s", got)
	}
}

func TestNumbersOfPartitions(t *testing.T) {
	r := New(manifest(t, curpThree))
	for list, want := range map[string]string{
		"3": `no partition "3"; they are numbered from 0 to 2`, "0,x": `no partition "x"`,
	} {
		if _, err := r.Numbers(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", list, err)
		}
	}
	if all, err := r.Numbers("0,2"); err != nil || len(all) != 2 || all[1] != 2 {
		t.Errorf("%v: %v", all, err)
	}
}

func TestPortsThatDoNotExist(t *testing.T) {
	for _, base := range []int{-5, 65534, 70000} {
		err := Assign(make([]Member, 3), nil, nil, base, false)
		if err == nil || !strings.Contains(err.Error(), "give one from 1 to 65533") {
			t.Errorf("--redis-base-port %d: %v", base, err)
		}
	}
}
