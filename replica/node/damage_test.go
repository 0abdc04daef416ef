package node

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
)

// halt stops a member.
func (r *running) halt(t *testing.T) {
	t.Helper()
	r.stop()
	if <-r.ended; r.err != nil {
		t.Fatal(r.err)
	}
}

// cutLog leaves half of what was written of the newest log of a member that was stopped.
func cutLog(t *testing.T, r *running) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.config.Directory, "db", "*.log"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no log: ", err)
	}
	path := slices.Max(paths)
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.Truncate(path, int64(len(bytes.TrimRight(data, "\x00"))/2))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func aside(r *running) bool {
	_, err := os.Stat(filepath.Join(r.config.Directory, "damaged", "db"))
	return err == nil
}

// A disk that has forgotten is not believed: its member joins again, by itself, and what was left is kept until then.
func TestADamagedDiskJoinsAgainByItself(t *testing.T) {
	all := waitFor(t, storage.Sync, 1, 2, 3)
	founded(t, all)
	third := all[2]
	await(t, "it votes", func() bool { return third.status(t).Role == adminv1.Role_VOTER })
	disk := third.status(t).Disk
	third.halt(t)
	cutLog(t, third)
	third = run(t, third.config)
	await(t, "it votes again", func() bool { l := third.status(t).Loss; return l != nil && l.Over })
	got := third.status(t)
	if got.Role != adminv1.Role_VOTER || got.Incarnation != 2 || got.Disk == disk ||
		!strings.Contains(got.Loss.Cause, "was durable") {
		t.Errorf("it is %s, of incarnation %d, on disk %s after %s: %v", got.Role, got.Incarnation,
			got.Disk, disk, got.Loss)
	}
	if aside(third) {
		t.Error("the damaged disk is kept, though the member votes")
	}
}

// Of three members two have lost their disks: none of them votes by itself, and both keep what they have left. One of
// them is given its disk back as it was, and then the other one joins.
func TestNobodyJoinsWhileTooManyDisksAreLost(t *testing.T) {
	all := waitFor(t, storage.Sync, 1, 2, 3)
	founded(t, all)
	for _, r := range all {
		await(t, "it votes", func() bool { return r.status(t).Role == adminv1.Role_VOTER })
	}
	whole := filepath.Join(t.TempDir(), "whole")
	for _, r := range all[1:] {
		r.halt(t)
	}
	if err := os.CopyFS(whole, os.DirFS(all[1].config.Directory)); err != nil {
		t.Fatal(err)
	}
	for i, r := range all[1:] {
		cutLog(t, r)
		all[1+i] = run(t, r.config)
	}
	for _, r := range all[1:] {
		await(t, "it hears the others", func() bool {
			return !slices.ContainsFunc(r.status(t).Peers, func(p *adminv1.Peer) bool { return !p.Reachable })
		})
		if got := r.status(t); got.Role != adminv1.Role_LEARNER || got.VotingShards > 0 || got.Loss == nil ||
			got.Loss.Over || !aside(r) {
			t.Errorf("member %d: %s, %d shards vote, %v, kept: %v", r.config.Self, got.Role,
				got.VotingShards, got.Loss, aside(r))
		}
	}
	second, third := all[1], all[2]
	second.halt(t)
	if err := os.RemoveAll(second.config.Directory); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(second.config.Directory, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	if got := third.status(t); got.Role != adminv1.Role_LEARNER || !aside(third) {
		t.Errorf("member 3: %s, kept: %v", got.Role, aside(third))
	}
	second = run(t, second.config)
	await(t, "it votes again", func() bool { l := third.status(t).Loss; return l.Over })
	if got := second.status(t); got.Role != adminv1.Role_VOTER || got.Incarnation != 1 {
		t.Errorf("member 2: %s, incarnation %d", got.Role, got.Incarnation)
	}
	done := make(chan register.Result, 1)
	third.node.Submit(register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")}, patience,
		func(r register.Result) { done <- r })
	if result := <-done; result.Status != register.OK {
		t.Errorf("a write: %+v", result)
	}
}
