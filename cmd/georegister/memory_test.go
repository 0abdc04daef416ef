package main

import (
	"os"
	"testing"
)

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
		got := machineMemory(func(path string) ([]byte, error) {
			if content, ok := c.files[path]; ok {
				return []byte(content), nil
			}
			return nil, os.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
