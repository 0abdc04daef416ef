package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// valid is a configuration of the first of three members, all on this machine.
func valid(directory string) Config {
	return Config{
		Cluster: "c", Epoch: 1, Protocol: "Gryff", Shards: 2, Self: 1,
		Members: []Member{
			{ID: 1, Site: "a", Address: "127.0.0.1:1"},
			{ID: 2, Site: "b", Address: "127.0.0.1:2"},
			{ID: 3, Site: "c", Address: "127.0.0.1:3"},
		},
		Distances: []Distance{
			{Site: "b", Delay: Duration(3 * time.Millisecond)}, {Site: "c", Jitter: Duration(time.Millisecond)},
		},
		Bootstrap: true, Directory: directory, Durability: storage.Sync,
		Limits: Limits{KeyBytes: 100, ValueBytes: 1000}, Listen: Listen{Peer: "127.0.0.1:0"},
	}
}

// without is the configuration of a member that waits for its view.
func (c Config) without() Config {
	c.Epoch, c.Issued, c.Members, c.Bootstrap, c.Site = 0, 0, nil, false, "a"
	return c
}

// One file serves several members.
func TestWho(t *testing.T) {
	shared := valid("d").without()
	shared.Self, shared.Site = 0, ""
	text, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := LoadConfig(path, Who{Self: 7, Site: "va"})
	if err != nil || got.Self != 7 || got.Site != "va" {
		t.Errorf("member %d at site %q, %v", got.Self, got.Site, err)
	}
	if _, err := LoadConfig(path, Who{Self: 7}); err == nil || !strings.Contains(err.Error(), "site: give") {
		t.Errorf("without a site: %v", err)
	}
}

func TestConfigRoundTrip(t *testing.T) {
	want := valid("d")
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := LoadConfig(path, Who{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil || string(again) != string(text) {
		t.Errorf("read back as %s (%v), want %s", again, err, text)
	}
	if !strings.Contains(string(text), `"delay":"3ms"`) || !strings.Contains(string(text), `"durability":"Sync"`) {
		t.Errorf("not for people: %s", text)
	}
}

func TestConfigMistakes(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"protocol", func(c *Config) { c.Protocol = "Paxos" }, "protocol: unknown protocol"},
		{"two members", func(c *Config) { c.Members = c.Members[:2] }, "members: protocol Gryff runs with 3, 5 or 7"},
		{"one member twice", func(c *Config) { c.Members[2].ID = 1 }, "member 1 is named twice"},
		{"no cluster", func(c *Config) { c.Cluster = "" }, "the cluster has no identity"},
		{"no cluster, no view", func(c *Config) { *c = c.without(); c.Cluster = "" }, "cluster: give"},
		{"no self", func(c *Config) { c.Self = 0; c.Site = "ca" }, "self: give the member's id"},
		{"no site", func(c *Config) { *c = c.without(); c.Site = "" }, "site: give the member's site"},
		{"epoch without members", func(c *Config) { *c = c.without(); c.Epoch = 2 }, "members: epoch and issued"},
		{"bootstrap without members", func(c *Config) { *c = c.without(); c.Bootstrap = true }, "members: bootstrap"},
		{"no epoch", func(c *Config) { c.Epoch = 0 }, "epochs start at 1"},
		{"self", func(c *Config) { c.Self = 4 }, "self: member 4 is not in members"},
		{"address", func(c *Config) { c.Members[1].Address = "" }, "member 2 has no address"},
		{"delay", func(c *Config) { c.Distances[0].Delay = -1 }, "site b: delay and jitter must not be negative"},
		{"jitter", func(c *Config) { c.Distances[1].Jitter = -1 }, "site c: delay and jitter must not be negative"},
		{"shards", func(c *Config) { c.Shards = 0 }, "shards: must be at least 1"},
		{"directory", func(c *Config) { c.Directory = "" }, "directory: give"},
		{"peer", func(c *Config) { c.Listen.Peer = "" }, "listen.peer: give"},
		{"limits", func(c *Config) { c.Limits.KeyBytes = 0 }, "limits: keyBytes"},
		{"little memory for clients", func(c *Config) { c.Limits.ClientMemory = 1 << 20 }, "limits: clientMemory"},
		{"a protocol with masters, durability", func(c *Config) {
			c.Protocol, c.Durability = "CURP", storage.Interval
		}, "durability: protocol CURP needs Sync, not Interval"},
		{"a protocol with masters, members", func(c *Config) {
			c.Protocol = "curp"
		}, "members: leave them out with protocol curp"},
		{"fragments of another protocol", func(c *Config) {
			c.ErasureCoding = &ErasureCoding{1, 1024}
		}, "protocol Gryff stores values whole"},
		{"fragments of another protocol, no view", func(c *Config) {
			*c = c.without()
			c.ErasureCoding = &ErasureCoding{1, 1024}
		},
			"protocol Gryff stores values whole"},
		{"too many fragments", func(c *Config) {
			c.Protocol, c.ErasureCoding = "Gus", &ErasureCoding{2, 1024}
		}, "erasureCoding: 3 replicas of which 1 may be lost"},
		{"no threshold", func(c *Config) {
			c.Protocol, c.ErasureCoding = "Gus", &ErasureCoding{1, 0}
		}, "erasureCoding: thresholdBytes is 0"},
		{"sessions without keys", func(c *Config) {
			c.Protocol = "GryffRSC"
		}, "tokenKeys: give the file with the keys"},
		{"keys without sessions", func(c *Config) { c.TokenKeys = "keys" }, "tokenKeys: leave it out, protocol Gryff"},
		{"transfer rate", func(c *Config) {
			c.TransferRate = new(Bytes)
			*c.TransferRate = -1
		}, "transferRate: must not be negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := valid("d")
			tt.change(&c)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if err := valid("d").Validate(); err != nil {
		t.Errorf("the configuration that the mistakes were made in: %v", err)
	}
}

func TestConfigFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{"self": "one"}`:                    "self",
		`{"distances": [{"delay": 3}]}`:      "a duration is a string such as 72ms, not 3",
		`{"distances": [{"delay": "soon"}]}`: `"soon" is not a duration`,
		`{"distances": [{"rtt": "3ms"}]}`:    `unknown field "rtt"`,
		`{"transferRate": "-32Mi"}`:          `"-32Mi" is not a number of bytes; write it like 32Mi`,
		`{"transferRate": "fast"}`:           `"fast" is not a number of bytes`,
		`{"transferRate": 1.5}`:              `1.5 is not a number of bytes`,
		`{"transferRate": "32MB"}`:           `"32MB" is not a number of bytes`,
		`{"transferRate": "9999999999Gi"}`:   `"9999999999Gi" is not a number of bytes`,
		`{"shard": 3}`:                       `unknown field "shard"`,
		`{"durability": "Maybe"}`:            `durability "Maybe" is unknown`,
		`{`:                                  "yaml",
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadConfig(path, Who{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want the file's name and %q", text, err, want)
		}
	}
	if _, err := LoadConfig("/no/such/file", Who{}); err == nil {
		t.Error("a missing file was read")
	}
}

func TestTransferRate(t *testing.T) {
	for text, want := range map[string]Bytes{
		`{}`: 32 << 20, `{"transferRate": 0}`: 0, `{"transferRate": "0"}`: 0, `{"transferRate": 1048577}`: 1<<20 + 1,
		`{"transferRate": "64Ki"}`: 64 << 10, `{"transferRate": "1Ti"}`: 1 << 40,
	} {
		var c Config
		if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil || c.transferRate() != want {
			t.Errorf("%s: %d, %v; want %d", text, c.transferRate(), err, want)
		}
	}
	for b, want := range map[Bytes]string{
		0: `"0"`, 1000: `"1000"`, 3 << 20: `"3Mi"`, 1 << 40: `"1Ti"`, 1 << 50: `"1024Ti"`,
	} {
		if text, err := b.MarshalJSON(); err != nil || string(text) != want {
			t.Errorf("%d is written %s, %v; want %s", b, text, err, want)
		}
	}
}

func FuzzBytes(f *testing.F) {
	for _, text := range []string{`"32Mi"`, `0`, `"1.5Gi"`, `"Ki"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b, again Bytes
		if b.UnmarshalJSON([]byte(text)) != nil {
			return
		}
		written, err := b.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalJSON(written); err != nil || again != b || b < 0 {
			t.Errorf("%s became %s, read as %d (%v)", text, written, again, err)
		}
	})
}

func FuzzDuration(f *testing.F) {
	f.Add(`"72ms"`)
	f.Add(`"-1.5s"`)
	f.Fuzz(func(t *testing.T, text string) {
		var d, again Duration
		if d.UnmarshalJSON([]byte(text)) != nil {
			return
		}
		written, err := d.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalJSON(written); err != nil || again != d {
			t.Errorf("%s became %s, read as %v (%v)", text, written, time.Duration(again), err)
		}
	})
}

func TestView(t *testing.T) {
	v := valid("d").View()
	if v.Majority() != 2 || v.Members[1] != (view.Member{ID: 2, Site: "b", Address: "127.0.0.1:2"}) {
		t.Errorf("view: %+v", v)
	}
}
