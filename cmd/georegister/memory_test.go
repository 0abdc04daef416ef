package main

import (
	"os"
	"testing"
)

// reader reads files that are made up, by their paths.
func reader(files map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if content, ok := files[path]; ok {
			return []byte(content), nil
		}
		return nil, os.ErrNotExist
	}
}

func TestMachineMemory(t *testing.T) {
	const meminfo, limit = "/proc/meminfo", "/sys/fs/cgroup/memory.max"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a machine":            {map[string]string{meminfo: "MemTotal:       1000 kB\nMemFree: 10 kB\n"}, 1000 << 10},
		"a container":          {map[string]string{meminfo: "MemTotal: 1000 kB\n", limit: "4096\n"}, 4096},
		"a generous container": {map[string]string{meminfo: "MemTotal: 1000 kB\n", limit: "4096000\n"}, 1000 << 10},
		"without a limit":      {map[string]string{meminfo: "MemTotal: 1000 kB\n", limit: "max\n"}, 1000 << 10},
		"only the limit":       {map[string]string{limit: "4096"}, 4096},
		"another system":       {nil, 0},
		"nonsense":             {map[string]string{meminfo: "MemTotal:", limit: ""}, 0},
	} {
		got := machineMemory(reader(c.files))
		if got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// A container's memory is its own; a machine may have other members.
func TestCacheMemory(t *testing.T) {
	const meminfo, limit = "/proc/meminfo", "/sys/fs/cgroup/memory.max"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a container":       {map[string]string{meminfo: "MemTotal: 8388608 kB\n", limit: "2147483648\n"}, 512 << 20},
		"a machine":         {map[string]string{meminfo: "MemTotal: 8388608 kB\n"}, 512 << 20},
		"a large machine":   {map[string]string{meminfo: "MemTotal: 83886080 kB\n", limit: "max\n"}, 1 << 30},
		"a large container": {map[string]string{meminfo: "MemTotal: 83886080 kB\n", limit: "34359738368"}, 8 << 30},
		"another system":    {nil, 0},
	} {
		got := cacheMemory(reader(c.files))
		if got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
