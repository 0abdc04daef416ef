package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// witnessFiles are the files of a witness's disk, and all of it, without a name.
var witnessFiles = []struct{ name, file string }{
	{"log", "LOG"}, {"identity", "IDENTITY"}, {"mark", "MARK"}, {"all files", ""},
}

// witnessSample is what is damaged without DAMAGES=all.
var witnessSample = []string{"log, a bit", "all files, an older copy"}

// The same with a dedicated witness, while masters rest on what it has promised: whose disk is lost has another witness
// take its place, and nothing that was acknowledged is. Its durability is Sync in any case; that of CURP's members is,
// too.
func TestDamagedDisksOfWitnesses(t *testing.T) {
	table := documented(t, "| of a witness | log |")
	table["an older copy"]["all files"] = []outcome{rejoins} // as the members tell
	table["another member's"]["all files"] = []outcome{refuses}
	s := newWitnessSufferer(t)
	s.suffer(t, "no file", "nothing", []outcome{believes}, func(string) bool { return true })
	for _, file := range witnessFiles {
		for _, d := range damages {
			want := table[d.name][file.name]
			if len(want) == 0 || !whole() && !slices.Contains(witnessSample, file.name+", "+d.name) {
				continue
			}
			copied := ""
			if d.name == "an older copy" {
				copied = s.copy(t)
			}
			s.suffer(t, file.name, d.name, want, func(disk string) bool {
				_, other := s.disk(t, s.other)
				switch {
				case file.file != "":
					older := []byte(nil)
					if copied != "" {
						older = hold(t, filepath.Join(copied, file.file))
					}
					return apply(t, d, filepath.Join(disk, file.file), older, hold(t, filepath.Join(other, file.file)))
				case copied != "":
					put(t, disk, copied)
				default:
					put(t, disk, other)
				}
				return true
			})
		}
	}
	s.load.judge()
}

// witnessSufferer is a cluster under load, the site whose witness's disks are damaged, and that of another witness of
// the same partition.
type witnessSufferer struct {
	c           *cluster
	load        *clients
	site, other string
}

func newWitnessSufferer(t *testing.T) *witnessSufferer {
	t.Helper()
	s := &witnessSufferer{c: start(t, dedicated(t), t.TempDir())}
	s.c.await(t, "nobody shares a site", s.c.apart)
	_, _, _, parts := s.c.parts()
	s.site, s.other = parts[0].witnesses[0], parts[0].witnesses[1]
	s.load = startLoad(t, s.c)
	s.load.goesOn("the load is under way")
	return s
}

// disk is the directory of a site's witness, and that of its disk.
func (s *witnessSufferer) disk(t *testing.T, site string) (directory, disk string) {
	t.Helper()
	s.c.await(t, "there is one witness at "+site, func() (string, bool) {
		all, err := filepath.Glob(filepath.Join(s.c.data, "witnesses", site+".*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 1 {
			directory = all[0]
		}
		return fmt.Sprint(all), len(all) == 1
	})
	return directory, filepath.Join(directory, "disk")
}

// copy takes a copy of the disk, which lacks what is promised from now on.
func (s *witnessSufferer) copy(t *testing.T) string {
	t.Helper()
	_, disk := s.disk(t, s.site)
	copied := filepath.Join(t.TempDir(), "copy")
	s.c.must(t, "kill", s.site+"/witness")
	put(t, copied, disk)
	s.c.must(t, "restart", s.site+"/witness")
	s.c.await(t, "the witness serves again", s.c.apart)
	s.load.goesOn("what is promised now, the copy lacks")
	return copied
}

// suffer kills the witness, harms its disk, and starts it again. It checks what comes of it, and waits until all
// partitions have their witnesses.
func (s *witnessSufferer) suffer(t *testing.T, file, damage string, want []outcome, harm func(disk string) bool) {
	t.Helper()
	directory, disk := s.disk(t, s.site)
	before := s.started(t, directory)
	s.c.must(t, "kill", s.site+"/witness")
	possible := harm(disk)
	said := len(hold(t, filepath.Join(directory, "log")))
	s.c.must(t, "restart", s.site+"/witness")
	got := s.becomes(t, directory, before)
	words := ""
	if log := hold(t, filepath.Join(directory, "log")); len(log) > said {
		words = string(log[said:])
	}
	if got == refuses {
		if !strings.Contains(words, disk) {
			t.Errorf("%s of %s: it is refused without naming its directory:\n%s", damage, file, words)
		}
		s.c.must(t, "wipe", s.site+"/witness")
	}
	if got != believes {
		s.c.await(t, "another witness has its place", func() (string, bool) {
			table, ok := s.c.apart()
			all, _ := filepath.Glob(filepath.Join(s.c.data, "witnesses", s.site+".*"))
			return fmt.Sprint(all, "\n", table), ok && len(all) == 1 && all[0] != directory
		})
	}
	if !possible {
		t.Logf("| witness, Sync, killed | %s | %s | there is nothing to change", file, damage)
		return
	}
	if !slices.Contains(want, got) {
		t.Errorf("%s of %s: the witness is %s, want %s:\n%s", damage, file, got, want, words)
	}
	s.load.goesOn("the load goes on after " + damage + " of " + file)
	t.Logf("| witness, Sync, killed | %s | %s | %s | %.250s", file, damage, got, causeOf(words))
}

// started lists the disks on which the witness of a directory was started, one for each time.
func (s *witnessSufferer) started(t *testing.T, directory string) (disks []string) {
	t.Helper()
	started := regexp.MustCompile(`Witness started.*"disk": ?"([0-9a-f]+)"`)
	for _, match := range started.FindAllSubmatch(hold(t, filepath.Join(directory, "log")), -1) {
		disks = append(disks, string(match[1]))
	}
	return disks
}

// causeOf is what a log says about a lost disk, if it does.
func causeOf(log string) string {
	for _, line := range strings.Split(log, "\n") {
		for _, words := range []string{"has forgotten", "counts as lost", "belongs to", "disk version", "is missing"} {
			if strings.Contains(line, words) {
				if i := strings.LastIndex(line, `":"`); i >= 0 {
					return line[i+3:]
				}
				return line
			}
		}
	}
	return ""
}

// becomes starts the witness again when it ends, and tells whether it goes on with its disk.
func (s *witnessSufferer) becomes(t *testing.T, directory string, before []string) outcome {
	t.Helper()
	restarts, believed, seen := 0, false, ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		disks := s.started(t, directory)
		var processes map[string]int
		seen, _, processes, _ = s.c.parts()
		if disks == nil {
			return rejoins // it has gone already
		}
		now := disks[len(disks)-1]
		if len(disks) > len(before) && now != before[len(before)-1] {
			return rejoins
		}
		if pid, known := processes[s.site+"/witness"]; known && pid == 0 {
			if restarts++; restarts == 3 {
				return refuses
			}
			believed = false
			_, _ = s.c.send("restart", s.site+"/witness") // another one may have taken its place meanwhile
			continue
		}
		if _, ok := s.c.apart(); ok && len(disks) > len(before) {
			if believed { // still
				return believes
			}
			believed = true
			s.load.goesOn("members ask the witness, and have told it what they know of its disk")
		}
	}
	t.Fatalf("the witness of %s neither serves nor ends within %s:\n%s", s.site, patience, seen)
	return ""
}
