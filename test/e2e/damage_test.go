package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

// damaged is what happens to the directory of a member that was killed, and what must come of it.
type damaged struct {
	name  string
	want  outcome
	apply func(t *testing.T, disk string, m, other *member)
	whole bool // only DAMAGES=all has it
}

// outcome is what becomes of a member whose disk was damaged.
type outcome string

const (
	rejoins  outcome = "joins anew" // its disk counts as lost; it votes again on another one
	refuses  outcome = "refused"    // the process ends, with words
	believes outcome = "believed"   // it votes on the disk that it had
)

var damages = []damaged{
	{name: "a bit of the log, with commits behind it", want: rejoins, apply: func(t *testing.T, disk string, _, _ *member) {
		change(t, newest(t, disk, "db/*.log"), func(data []byte) []byte { data[len(data)/3] ^= 4; return data })
	}},
	{name: "the log cut to half", want: rejoins, whole: true, apply: func(t *testing.T, disk string, _, _ *member) {
		change(t, newest(t, disk, "db/*.log"), func(data []byte) []byte { return data[:len(data)/2] })
	}},
	{name: "a zeroed sector of the log", want: rejoins, whole: true, apply: func(t *testing.T, disk string, _, _ *member) {
		change(t, newest(t, disk, "db/*.log"), func(data []byte) []byte { clear(data[1024:1536]); return data })
	}},
	{name: "the newest log removed", want: rejoins, apply: func(t *testing.T, disk string, _, _ *member) {
		remove(t, newest(t, disk, "db/*.log"))
	}},
	{name: "an emptied manifest", want: rejoins, whole: true, apply: func(t *testing.T, disk string, _, _ *member) {
		change(t, newest(t, disk, "db/MANIFEST-*"), func([]byte) []byte { return nil })
	}},
	{name: "the marker removed", want: rejoins, whole: true, apply: func(t *testing.T, disk string, _, _ *member) {
		remove(t, newest(t, disk, "db/marker.manifest.*"))
	}},
	{name: "a digit of IDENTITY", want: rejoins, whole: true, apply: func(t *testing.T, disk string, _, _ *member) {
		digit := regexp.MustCompile(`[0-9]`)
		change(t, filepath.Join(disk, "IDENTITY"), func(data []byte) []byte {
			at := digit.FindAllIndex(data, -1)
			i := at[len(at)/2][0]
			data[i] = '0' + (data[i]-'0'+1)%10
			return data
		})
	}},
	{name: "another member's files", want: refuses, apply: func(t *testing.T, disk string, _, other *member) {
		remove(t, disk)
		if err := os.CopyFS(disk, os.DirFS(other.disk)); err != nil {
			t.Fatal(err)
		}
	}},
}

func newest(t *testing.T, disk, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(disk, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s has no %s: %v", disk, pattern, err)
	}
	return slices.Max(names)
}

func change(t *testing.T, name string, by func([]byte) []byte) {
	t.Helper()
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	after := by(bytes.Clone(before))
	if bytes.Equal(before, after) {
		t.Fatalf("%s is as before", name)
	}
	if err := os.WriteFile(name, after, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

// Under load, one member after the other is killed, and its files are damaged; it is started again, with whatever it makes of them. The
// answers that all clients got in all of this fit one order. DAMAGES=all has the whole table.
func TestDamagedDisksUnderLoad(t *testing.T) {
	s := newSufferers(t)
	for _, d := range damages {
		if d.whole && os.Getenv("DAMAGES") != "all" {
			continue
		}
		m, other := s.next()
		s.suffer(t, d.name, d.want, m, func() { d.apply(t, m.disk, m, other) })
	}
	s.load.finish(t)
}

// The same with a disk on which all files agree, since they are those of an earlier moment. Only the other members can tell.
func TestOlderDiskUnderLoad(t *testing.T) {
	if os.Getenv("DAMAGES") != "all" {
		t.Skip("DAMAGES=all has the whole table")
	}
	s := newSufferers(t)
	m, _ := s.next()
	m.kill(t)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(m.disk)); err != nil {
		t.Fatal(err)
	}
	m.start(t)
	m.await(t, "serves", serves)
	s.load.progress(t, 300, s.members...) // what is acknowledged now, the copy lacks
	s.suffer(t, "an older copy of all of it", rejoins, m, func() {
		remove(t, m.disk)
		if err := os.CopyFS(m.disk, os.DirFS(copied)); err != nil {
			t.Fatal(err)
		}
	})
	s.load.finish(t)
}

// sufferers are members under load, whose disks are damaged in turn.
type sufferers struct {
	members []*member
	view    view.View
	load    *load
	turn    int
}

func newSufferers(t *testing.T) *sufferers {
	t.Helper()
	s := &sufferers{members: []*member{newMember(t, 1), newMember(t, 2), newMember(t, 3)}}
	s.view = found(t, s.members...)
	s.load = newLoad(t, s.members...)
	s.load.progress(t, 150, s.members...)
	return s
}

// next is whose turn it is, and another member.
func (s *sufferers) next() (m, other *member) {
	s.turn++
	n := len(s.members)
	return s.members[s.turn%n], s.members[(s.turn+1)%n]
}

// suffer kills a member, does something to its disk, and starts it again. It checks what comes of it, and waits until the member votes: on
// an empty disk if it was refused.
func (s *sufferers) suffer(t *testing.T, name string, want outcome, m *member, damage func()) {
	t.Helper()
	before := m.await(t, "serves", serves)
	m.kill(t)
	damage()
	said := len(m.output.String())
	m.start(t)
	got, words := s.becomes(t, m, before)
	if got == refuses {
		if words = m.output.String()[said:]; !strings.Contains(words, m.disk) {
			t.Errorf("%s: member %d is refused without naming its directory:\n%s", name, m.id, words)
		}
		remove(t, m.disk)
		m.start(t)
		s.becomes(t, m, before)
	}
	if got != want {
		t.Errorf("%s: member %d is %s, want %s: %s", name, m.id, got, want, words)
	}
	s.load.progress(t, 150, s.members...)
	t.Logf("%-42s member %d: %s: %.200s", name, m.id, got, strings.TrimSpace(words))
}

// becomes waits until the member votes again, or has ended as often as it was started, and tells which it was, and what it says about it.
func (s *sufferers) becomes(t *testing.T, m *member, before *adminv1.StatusResponse) (outcome, string) {
	t.Helper()
	starts := 1
	var last *adminv1.StatusResponse
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		select {
		case <-m.ended: // damage that was found while it ran is known to the next start
			if starts++; starts > 3 {
				return refuses, ""
			}
			m.start(t)
			continue
		default:
		}
		if last = m.status(t); last == nil {
			continue
		}
		if waits(last) { // it asks for its view, as it asks an operator
			_ = m.configure(t, s.view) // it may have heard of it meanwhile
		}
		switch {
		case !serves(last) || last.VotingShards != last.Shards:
		case last.Disk != before.Disk && last.Incarnation > before.Incarnation:
			return rejoins, last.GetLoss().GetCause()
		case last.Disk == before.Disk:
			return believes, fmt.Sprintf("disk %s, boot %d after %d", last.Disk, last.Boot, before.Boot)
		}
	}
	t.Fatalf("member %d neither votes nor ends within %s: %v", m.id, patience, last)
	return "", ""
}
