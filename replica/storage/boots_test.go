package storage

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/register"
)

// A disk that counts so many starts that none could be told to others any more is lost, and the next one counts anew.
func TestADiskOfTooManyStartsIsLost(t *testing.T) {
	for _, durability := range []Durability{Sync, Memory} {
		for _, boots := range []uint32{maxBoot, math.MaxUint32 - 1, math.MaxUint32} {
			t.Run(fmt.Sprint(durability, "/", boots), func(t *testing.T) {
				fs := vfs.NewMem()
				s := open(t, options(fs, durability))
				put(t, s, 1, 1, set("k", "v"))
				closeStore(t, s)
				r, err := readRecord(fs, directory)
				if err != nil {
					t.Fatal(err)
				}
				disk := r.Disk
				r.Boot = boots
				if err := writeRecord(fs, directory, r); err != nil {
					t.Fatal(err)
				}
				s = open(t, options(fs, durability))
				if s.Boot() != 1 || !s.Lost() || s.Disk() == disk {
					t.Errorf("boot %d, lost %v, disk %s after %s", s.Boot(), s.Lost(), s.Disk(), disk)
				}
				if loss := s.Loss(); loss == nil || !strings.Contains(loss.Cause, register.ErrNumber.Error()) {
					t.Errorf("the loss is %v", loss)
				}
				closeStore(t, s)
			})
		}
	}
}

// The last start that can be counted is whole. No other one follows it in this process either, and the next process
// finds the disk lost.
func TestTheLastStartIsWhole(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, options(fs, Sync))
	put(t, s, 1, 1, set("k", "v"))
	closeStore(t, s)
	r, err := readRecord(fs, directory)
	if err != nil {
		t.Fatal(err)
	}
	r.Boot = maxBoot - 1
	if err := writeRecord(fs, directory, r); err != nil {
		t.Fatal(err)
	}
	s = open(t, options(fs, Sync))
	if _, kept := s.Shard(1).Get([]byte("k")); s.Boot() != maxBoot || s.Lost() || !kept {
		t.Fatalf("boot %d, lost %v, kept %v", s.Boot(), s.Lost(), kept)
	}
	if err := s.Reboot(); !errors.Is(err, register.ErrNumber) {
		t.Errorf("another start is counted: %v", err)
	}
	if s.Err() == nil || s.Boot() != maxBoot {
		t.Errorf("it goes on: boot %d", s.Boot())
	}
	r, err = readRecord(fs, directory)
	if err != nil || !strings.Contains(r.Damage, register.ErrNumber.Error()) {
		t.Errorf("the next start does not know why: %v, %v", r, err)
	}
}
