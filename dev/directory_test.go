package dev

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
)

func manifest(t *testing.T, spec string) *v1alpha1.GeoRegisterCluster {
	t.Helper()
	m, err := v1alpha1.Decode([]byte("apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: demo}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const threeSites = "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}]}"

func TestDirectoryIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first, err := openDirectory(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	newcomer := first.record.newcomer("d")
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	again, err := openDirectory(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	if again.record.Cluster != first.record.Cluster || again.record.find(newcomer) == nil || again.record.Issued != 4 {
		t.Errorf("read back as %+v, want %+v", again.record, first.record)
	}
	if err := again.close(); err != nil {
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
	d, err := openDirectory(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	if r := d.record; r.Issued != 3 || r.newcomer("d") != 4 || d.member(r.Members[1]) != filepath.Join(path, "members", "b") {
		t.Errorf("read as %+v", r)
	}
}

func TestDirectoryRefusesAnotherTopology(t *testing.T) {
	path := t.TempDir()
	d, err := openDirectory(path, manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		"{protocol: ABD, sites: [{name: a}, {name: b}, {name: c}]}":                                  "made with protocol Gryff, the manifest has ABD",
		"{protocol: Gryff, shards: 9, sites: [{name: a}, {name: b}, {name: c}]}":                     "made with shards 4, the manifest has 9",
		"{protocol: Gryff, sites: [{name: a, members: 3}]}":                                          "made with sites [a b c], the manifest has [a-1 a-2 a-3]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]}":          "the manifest has [a b c d e]",
		"{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], storage: {durability: Memory}}": "",
	} {
		_, err := openDirectory(path, manifest(t, spec))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	d.record.View.Epoch = 1
	if err := d.save(); err != nil {
		t.Fatal(err)
	}
	memory := manifest(t, "{protocol: Gryff, sites: [{name: a}, {name: b}, {name: c}], storage: {durability: Memory}}")
	if _, err := openDirectory(path, memory); err == nil || !strings.Contains(err.Error(), "nothing is left") {
		t.Errorf("a cluster in memory that has ended: %v", err)
	}
	if err := os.WriteFile(filepath.Join(path, recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDirectory(path, manifest(t, threeSites)); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged record: %v", err)
	}
}

func TestTemporaryDirectoryGoes(t *testing.T) {
	d, err := openDirectory("", manifest(t, threeSites))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", d.path, err)
	}
}

func TestPorts(t *testing.T) {
	members := newRecord(manifest(t, threeSites)).Members
	if err := assign(members, 0, false); err != nil {
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
	taken, err := net.Listen("tcp", loopback(0))
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
	if err := assign(members, base, false); err == nil || !strings.Contains(err.Error(), "choose another --redis-base-port") {
		t.Errorf("a base port that is taken: %v", err)
	}
	kept := members[2].Ports
	members[2].Ports.Admin = base // of an earlier run, and taken since
	if err := assign(members, 0, false); err != nil {
		t.Fatal(err)
	}
	if got := members[2].Ports; got.Admin == base || got.GRPC != kept.GRPC || got.Peer != kept.Peer {
		t.Errorf("ports %+v; those that are free should be kept of %+v", got, kept)
	}
}

// The view tells where members are, so they wait for their ports until the processes of a run that was killed ended.
func TestPortsThatAreInTheViewAreWaitedFor(t *testing.T) {
	members := newRecord(manifest(t, threeSites)).Members
	if err := assign(members, 0, false); err != nil {
		t.Fatal(err)
	}
	port := members[1].Ports.Peer
	outlives, err := net.Listen("tcp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	var picker portPicker
	if err := picker.assign(members, 0, true); err == nil || !strings.Contains(err.Error(), "where the others look for b, is taken") {
		t.Errorf("a port that is taken: %v", err)
	}
	assigned := make(chan error)
	go func() { assigned <- assign(members, 0, true) }()
	if err := outlives.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-assigned; err != nil || members[1].Ports.Peer != port {
		t.Errorf("the port became free, and the member is at %d (%v), not %d", members[1].Ports.Peer, err, port)
	}
}
