package witness

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/disk"
	"github.com/georegister/georegister/witness/server"
)

func valid(directory string) Config {
	return Config{
		Cluster: "c", Self: 7, Directory: directory, Durability: Sync,
		Listen: Listen{Peer: "127.0.0.1:0", HTTP: "127.0.0.1:0"},
	}
}

func TestConfigurationsThatCantBe(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"cluster: ":     func(c *Config) { c.Cluster = "" },
		"self: ":        func(c *Config) { c.Self = 0 },
		"65535":         func(c *Config) { c.Self = MaxID + 1 },
		"durability: ":  func(c *Config) { c.Durability = "Interval" },
		"directory: ":   func(c *Config) { c.Directory = "" },
		"slots: ":       func(c *Config) { c.Slots = 100 },
		"lives: ":       func(c *Config) { c.Lives = -1 },
		"memoryBytes: ": func(c *Config) { c.MemoryBytes = -1 },
		"listen.peer: ": func(c *Config) { c.Listen.Peer = "" },
	} {
		c := valid("d")
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := valid("d").Validate(); err != nil {
		t.Error(err)
	}
	inMemory := valid("")
	inMemory.Durability = Memory
	if err := inMemory.Validate(); err != nil {
		t.Error(err)
	}
}

func TestLoadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cluster: c\ndirectory: d\ndurability: Sync\nslots: 1024\nlisten: {peer: \":7000\"}\n")
	c, err := LoadConfig(path, 9)
	if err != nil || c.Self != 9 || c.Slots != 1024 || c.Listen.Peer != ":7000" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := LoadConfig(path, 0); err == nil || !strings.Contains(err.Error(), "self: ") {
		t.Errorf("without an ID: %v", err)
	}
	write("cluster: c\nsolts: 3\n")
	if _, err := LoadConfig(path, 9); err == nil || !strings.Contains(err.Error(), "solts") {
		t.Errorf("an unknown field: %v", err)
	}
	if _, err := LoadConfig(path+"x", 9); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// start runs a witness, and returns where it is and how to stop it.
func start(t *testing.T, c Config) (address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, c, Options{Listening: func(peer net.Addr) { listening <- peer.String() }})
	}()
	stop = func() error {
		cancel()
		return <-ended
	}
	select {
	case address = <-listening:
		return address, stop
	case err := <-ended:
		cancel()
		t.Fatal(err)
		return "", nil
	}
}

// ask opens a stream as one asker, and returns the disk that the witness names and a function that asks.
func ask(t *testing.T, address string, from uint32) (string, func(...*witnessv1.Message) *witnessv1.Message) {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	stream, err := witnessv1.NewWitnessesClient(c).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call := func(f *witnessv1.Frame) *witnessv1.Frame {
		if err := stream.Send(f); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	h := call(
		&witnessv1.Frame{Hello: &witnessv1.Hello{Cluster: "c", From: from, To: 7, WireVersion: server.WireVersion}}).
		Hello
	return h.Disk, func(m ...*witnessv1.Message) *witnessv1.Message {
		return call(&witnessv1.Frame{Messages: m}).Messages[0]
	}
}

// vouch is what the only member of a cluster has heard.
func vouch(disk string, start uint64) *witnessv1.Message {
	return &witnessv1.Message{
		Kind: witnessv1.Kind_VOUCH, Partition: 1, Disk: disk, Start: start, Promises: 1, View: 1, Voters: 1,
	}
}

// A witness whose disk was put back from an older copy ends, and begins again on an empty one.
func TestAnOlderCopyIsLost(t *testing.T) {
	c := valid(filepath.Join(t.TempDir(), "witness"))
	address, stop := start(t, c)
	named, manager := ask(t, address, 0)
	if a := manager(&witnessv1.Message{Kind: witnessv1.Kind_START, Partition: 1, Term: 5, Disk: named}); !a.Accepted {
		t.Fatal(a)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	address, stop = start(t, c)
	_, client := ask(t, address, 2)
	a := client(&witnessv1.Message{Kind: witnessv1.Kind_CHECK, Partition: 1, Term: 5, Hashes: []uint64{10}})
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := witnessv1.NewWitnessesClient(conn).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, frame := range []*witnessv1.Frame{
		{Hello: &witnessv1.Hello{Cluster: "c", From: 1, To: 7, WireVersion: server.WireVersion}},
		{Messages: []*witnessv1.Message{vouch(named, a.Start)}},
	} {
		if err := stream.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Recv(); err != nil { // its hello
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err == nil {
		t.Fatalf("it answers: %v", m)
	}
	if err := stop(); err == nil || !strings.Contains(err.Error(), "has forgotten what it held") {
		t.Fatalf("it ended with %v", err)
	}
	address, stop = start(t, c)
	if next, _ := ask(t, address, 2); next == named {
		t.Error("it goes on with the older copy")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessKeepsWhatItAccepted(t *testing.T) {
	c := valid(filepath.Join(t.TempDir(), "witness"))
	address, stop := start(t, c)
	disk1, manager := ask(t, address, 0)
	if a := manager(&witnessv1.Message{Kind: witnessv1.Kind_START, Partition: 1, Term: 5, Disk: disk1}); !a.Accepted {
		t.Fatal(a)
	}
	_, client := ask(t, address, 2)
	record := &witnessv1.Message{
		Kind: witnessv1.Kind_RECORD, Partition: 1, Term: 5, Hashes: []uint64{10},
		Id: &witnessv1.ID{Session: 1, Number: 2}, Request: []byte("r"),
	}
	if a := client(record); !a.Accepted {
		t.Fatal(a)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.Slots = 64 // for lives that begin from now on
	address, stop = start(t, c)
	disk2, master := ask(t, address, 1)
	question := &witnessv1.Message{Kind: witnessv1.Kind_RECOVERY_DATA, Partition: 1, Term: 5}
	page := master(question)
	if page.Accepted || page.Start == 0 {
		t.Errorf("before a member has vouched for its disk: %v", page)
	}
	page = master(vouch(disk1, page.Start), question)
	if disk2 != disk1 || !page.Accepted || !page.Last || len(page.Requests) != 1 ||
		string(page.Requests[0].Request) != "r" {
		t.Errorf("disk %s, was %s: %v", disk2, disk1, page)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAForeignDiskIsRefused(t *testing.T) {
	c := valid(t.TempDir())
	_, stop := start(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.Self = 8
	if err := Run(t.Context(), c, Options{}); !errors.Is(err, disk.ErrForeign) ||
		!strings.Contains(err.Error(), `that of witness 7 of cluster "c", and this is witness 8`) {
		t.Errorf("%v", err)
	}
}

func TestAPortThatIsTakenChangesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for field, set := range map[string]func(*Listen){
		"listen.peer": func(l *Listen) { l.Peer = taken.Addr().String() },
		"listen.http": func(l *Listen) { l.HTTP = taken.Addr().String() },
	} {
		c := valid(filepath.Join(t.TempDir(), "witness"))
		set(&c.Listen)
		if err := Run(t.Context(), c, Options{}); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := os.Stat(c.Directory); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory was touched: %v", field, err)
		}
	}
}
