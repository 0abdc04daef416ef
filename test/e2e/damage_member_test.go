package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

// diskFile is a file of a member's disk, or all of it, without a pattern. A later one is of a process that was not the
// first on that disk.
type diskFile struct {
	name, pattern string
	later         bool
}

var memberFiles = []diskFile{
	{"first log", "db/*.log", false},
	{"later log", "db/*.log", true},
	{"table", "db/*.sst", true},
	{"manifest", "db/MANIFEST-*", true},
	{"marker", "db/marker.manifest.*", true},
	{"format marker", "db/marker.format-version.*", true},
	{"options", "db/OPTIONS-*", true},
	{"identity", "IDENTITY", true},
	{"view", "VIEW", true},
	{"mark", "MARK", true},
	{"all files", "", true},
}

// stop is how members' processes end before their disks are damaged.
type stop struct {
	durability string
	clean      bool
}

func (at stop) String() string {
	if at.clean {
		return at.durability + ", stopped"
	}
	return at.durability + ", killed"
}

// allow is what may become of a damaged disk, if it may become that after a clean stop.
func (at stop) allow(after []outcome) []outcome {
	if at.durability != "Interval" || at.clean {
		return after
	}
	var allowed []outcome
	for _, o := range after {
		if o == believes { // it counts as lost in any case
			o = rejoins
		}
		allowed = append(allowed, o)
	}
	return allowed
}

// cell is a damage of a file, and what may become of it.
type cell struct {
	file   diskFile
	damage damage
	want   []outcome
}

// sample is what is damaged without DAMAGES=all.
var sample = []string{
	"Sync, killed, first log, a bit", "Sync, killed, later log, removed", "Sync, killed, all files, another member's",
	"Interval, stopped, first log, a bit", "Interval, stopped, identity, a zeroed sector",
}

// cells are the damages that are done after such a stop, in groups that are judged apart, since that takes less time.
func (at stop) cells(t *testing.T) (groups [][]cell) {
	table := documented(t, "| | first log |")
	table["an older copy"]["all files"] = []outcome{rejoins} // as the others tell
	table["another member's"]["all files"] = []outcome{refuses}
	var sampled []cell
	for _, file := range memberFiles {
		var all []cell
		for _, d := range damages {
			if want := table[d.name][file.name]; len(want) > 0 {
				c := cell{file, d, at.allow(want)}
				all = append(all, c)
				if slices.Contains(sample, fmt.Sprintf("%s, %s, %s", at, file.name, d.name)) {
					sampled = append(sampled, c)
				}
			}
		}
		groups = append(groups, all)
	}
	if whole() {
		return groups
	}
	return [][]cell{sampled}
}

// Under load, one member after the other is killed, or stopped, and a file of its disk is damaged, or all of it is
// another one's; it is started again, with whatever it makes of that. That is what docs/operations.md says, and the
// answers that all clients got in all of this fit one order. DAMAGES=all has the whole table.
func TestDamagedDisksUnderLoad(t *testing.T) {
	for _, at := range []stop{{"Sync", false}, {"Interval", true}, {"Interval", false}} {
		for _, cells := range at.cells(t) {
			name := at.String()
			if whole() {
				name += ", " + cells[0].file.name
			}
			t.Run(name, func(t *testing.T) {
				s := newSufferers(t, at)
				m, _ := s.next()
				s.suffer(t, m, "no file", "nothing", at.allow([]outcome{believes}), func() bool { return true })
				for _, c := range cells {
					s.damage(t, c)
				}
				s.load.finish(t)
			})
		}
	}
}

// sufferers are members under load, whose disks are damaged in turn.
type sufferers struct {
	at      stop
	members []*member
	view    view.View
	load    *load
	turn    int
}

func newSufferers(t *testing.T, at stop) *sufferers {
	t.Helper()
	s := &sufferers{at: at}
	for id := range view.MemberID(3) {
		s.members = append(s.members, newMember(t, id+1, at.durability))
	}
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

// damage does what a cell says to the next member.
func (s *sufferers) damage(t *testing.T, c cell) {
	t.Helper()
	m, other := s.next()
	if later := newest(t, m.disk, "db/*.sst") != ""; later && !c.file.later {
		m.wipe(t)
		s.becomes(t, m, nil)
	} else if !later && c.file.later {
		s.restart(t, m, nil)
	}
	if c.file.pattern == "" {
		copied := filepath.Join(t.TempDir(), "copy")
		s.restart(t, m, func() { put(t, copied, m.disk) })
		s.load.progress(t, 150, s.members...) // what is acknowledged now, the copy lacks
		s.suffer(t, m, c.file.name, c.damage.name, c.want, func() bool {
			if c.damage.name == "an older copy" {
				put(t, m.disk, copied)
			} else {
				put(t, m.disk, other.disk)
			}
			return true
		})
		return
	}
	if c.damage.name == "another member's" && newest(t, other.disk, c.file.pattern) == "" {
		s.restart(t, other, nil) // which leaves a table
	}
	name := newest(t, m.disk, c.file.pattern)
	older := hold(t, name)
	if c.damage.name == "an older copy" && c.file.later {
		s.restart(t, m, nil)
	}
	s.load.progress(t, 50, s.members...)
	s.suffer(t, m, c.file.name, c.damage.name, c.want, func() bool {
		if now := newest(t, m.disk, c.file.pattern); now != name {
			name, older = now, nil
		}
		return apply(t, c.damage, name, older, hold(t, newest(t, other.disk, c.file.pattern)))
	})
}

// restart stops a member in order, does something, and starts it again; it votes as before.
func (s *sufferers) restart(t *testing.T, m *member, meanwhile func()) {
	t.Helper()
	before := m.await(t, "serves", serves)
	m.stop(t)
	if meanwhile != nil {
		meanwhile()
	}
	m.start(t)
	if got, words := s.becomes(t, m, before); got != believes {
		t.Fatalf("member %d after a clean stop: %s: %s", m.id, got, words)
	}
}

// suffer ends a member, harms its disk, and starts it again. It checks what comes of it, and waits until the member
// votes: on an empty disk if it was refused.
func (s *sufferers) suffer(t *testing.T, m *member, file, damage string, want []outcome, harm func() bool) {
	t.Helper()
	before := m.await(t, "serves", serves)
	if s.at.clean {
		m.stop(t)
	} else {
		m.kill(t)
	}
	possible := harm()
	said := len(m.output.String())
	m.start(t)
	got, words := s.becomes(t, m, before)
	if got == refuses {
		if words = m.output.String()[said:]; !strings.Contains(words, m.disk) {
			t.Errorf("%s of %s: member %d is refused without naming its directory:\n%s", damage, file, m.id, words)
		}
		remove(t, m.disk)
		m.start(t)
		s.becomes(t, m, before)
	}
	if !possible {
		t.Logf("| %s | %s | %s | there is nothing to change", s.at, file, damage)
		return
	}
	if !slices.Contains(want, got) {
		t.Errorf("%s of %s: member %d is %s, want %s: %s", damage, file, m.id, got, want, words)
	}
	s.load.progress(t, 100, s.members...)
	t.Logf("| %s | %s | %s | %s | %.250s", s.at, file, damage, got, strings.TrimSpace(words))
}

// becomes waits until the member votes again, or has ended as often as it was started, and tells which it was, and what
// it says about it.
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
		case last.Disk != before.GetDisk() && last.Incarnation > before.GetIncarnation():
			return rejoins, last.GetLoss().GetCause()
		case last.Disk == before.GetDisk():
			return believes, fmt.Sprintf("disk %s, boot %d after %d", last.Disk, last.Boot, before.Boot)
		}
	}
	t.Fatalf("member %d neither votes nor ends within %s: %v", m.id, patience, last)
	return "", ""
}

// stop ends the member in order.
func (m *member) stop(t *testing.T) {
	t.Helper()
	if err := m.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.ended:
	case <-time.After(patience):
		t.Fatalf("member %d does not stop", m.id)
	}
}
