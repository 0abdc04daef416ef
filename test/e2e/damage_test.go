package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
)

// outcome is what becomes of who is started on a disk that was damaged.
type outcome string

const (
	rejoins  outcome = "joins anew" // its disk counts as lost; it goes on with another one, or another one in its place
	refuses  outcome = "refused"    // the process ends, with words
	believes outcome = "believed"   // it goes on with the disk that it had
)

// content is what a file holds, what it held before, and what that of another member or witness does.
type content struct{ now, older, other []byte }

const sector = 512

// damage changes a file, in the middle if that matters; what it leaves as it is can't be damaged like that. Without
// apply it removes the file.
type damage struct {
	name  string
	apply func(c content) []byte
}

var damages = []damage{
	{"a bit", func(c content) []byte {
		if len(c.now) > 0 {
			c.now[len(c.now)/3] ^= 4
		}
		return c.now
	}},
	{"a zeroed sector", func(c content) []byte {
		at := len(c.now) / 2 / sector * sector
		clear(c.now[at:min(len(c.now), at+sector)])
		return c.now
	}},
	{"a duplicated sector", func(c content) []byte {
		if a, b := neighbours(c.now); b != nil {
			copy(b, a)
		}
		return c.now
	}},
	{"swapped blocks", func(c content) []byte {
		if a, b := neighbours(c.now); b != nil {
			kept := bytes.Clone(a)
			copy(a, b)
			copy(b, kept)
		}
		return c.now
	}},
	{"cut", func(c content) []byte { return c.now[:len(c.now)/2] }},
	{"removed", nil},
	{"an older copy", func(c content) []byte { return c.older }},
	{"another member's", func(c content) []byte { return c.other }},
	{"another version", func(c content) []byte {
		var d struct {
			Version int             `json:"disk_version"`
			Content json.RawMessage `json:"content"`
		}
		fs := vfs.NewMem()
		if json.Unmarshal(c.now, &d) != nil || durable.WriteDocument(fs, "", "F", d.Version+1, d.Content) != nil {
			return c.now
		}
		data, _ := durable.Read(fs, "F")
		return data
	}},
}

// neighbours are two whole sectors in the middle that differ; nil: there are none.
func neighbours(data []byte) (a, b []byte) {
	for at := len(data) / 3 / sector * sector; at+2*sector <= len(data); at += sector {
		if a, b = data[at:at+sector], data[at+sector:at+2*sector]; !bytes.Equal(a, b) {
			return a, b
		}
	}
	return nil, nil
}

// newest names the latest file of that pattern; empty: there is none.
func newest(t *testing.T, disk, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(disk, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Max(names)
}

// hold reads a file; nil: there is none.
func hold(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return data
}

// apply damages a file, and reports whether it can be damaged like that.
func apply(t *testing.T, d damage, name string, older, other []byte) bool {
	t.Helper()
	if d.apply == nil {
		remove(t, name)
		return true
	}
	// What lies behind a log is what it was filled with in front of what was written.
	now, behind := hold(t, name), []byte(nil)
	if filepath.Ext(name) == ".log" {
		end := min(len(now), len(bytes.TrimRight(now, "\x00"))+8) // the latest commit may end with a few
		now, behind = now[:end], now[end:]
	}
	after := d.apply(content{bytes.Clone(now), older, other})
	if after == nil || bytes.Equal(now, after) {
		return false
	}
	if len(after) == len(now) {
		after = append(after, behind...)
	}
	if err := os.WriteFile(name, after, 0o600); err != nil {
		t.Fatal(err)
	}
	return true
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

// put makes a directory what another one is.
func put(t *testing.T, directory, from string) {
	t.Helper()
	remove(t, directory)
	if err := os.CopyFS(directory, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// manual is a table of docs/operations.md: what may become of a damage, by file.
type manual map[string]map[string][]outcome

// documented reads the table whose head begins like that.
func documented(t *testing.T, head string) manual {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), "\n"+head)
	if at < 0 {
		t.Fatalf("docs/operations.md has no table that begins with %s", head)
	}
	table, _, _ := strings.Cut(string(text[at+1:]), "\n\n")
	rows := strings.Split(table, "\n")
	files := strings.Split(strings.Trim(rows[0], "|"), "|")[1:]
	words := map[string]outcome{"lost": rejoins, "refused": refuses, "harmless": believes}
	m := manual{}
	for _, row := range rows[2:] {
		fields := strings.Split(strings.TrimPrefix(strings.TrimSuffix(row, "|"), "|"), "|")
		damage := strings.Replace(strings.TrimSpace(fields[0]), "another witness's", "another member's", 1)
		m[damage] = map[string][]outcome{}
		for i, field := range fields[1:] {
			for _, word := range strings.Split(strings.TrimSpace(field), ", ") {
				if o := words[word]; o != "" { // the window is that of a loss of power, and nobody has lost that here
					m[damage][strings.TrimSpace(files[i])] = append(m[damage][strings.TrimSpace(files[i])], o)
				}
			}
		}
	}
	return m
}

// whole reports whether all of the table is wanted.
func whole() bool { return os.Getenv("DAMAGES") == "all" }
