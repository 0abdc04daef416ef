package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/georegister/georegister/workload/bench"
)

func TestEachMeasurementIsALineOfData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.jsonl")
	o := bench.Options{Keys: 10, Clients: 3, ValueBytes: 16, Rate: 5}
	for n := range int64(2) {
		r := bench.Result{
			Operations: 100 + n, Elapsed: 2 * time.Second, CPU: time.Duration(100+n) * 1500,
			Latency: bench.Latency{P50: time.Millisecond, P99: 2 * time.Millisecond, P999: 3500 * time.Microsecond},
		}
		if err := dataFile(path).add("bench keys", "etcd", "reads", "Sync", o, r); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var got []measurement
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m measurement
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		m.At = time.Time{}
		got = append(got, m)
	}
	want := measurement{
		Command: "bench keys", Machine: machine(), System: "etcd", Workload: "reads", Durability: "Sync", Keys: 10,
		ValueBytes: 16, Clients: 3, Depth: 1, Rate: 5, Operations: 101, Seconds: 2, P50: 1, P99: 2, P999: 3.5, CPU: 1.5,
	}
	if len(got) != 2 || got[0].Operations != 100 || got[1] != want {
		t.Errorf("got %+v, want the last to be %+v", got, want)
	}
	if err := dataFile(t.TempDir()).add("", "", "", "", o, bench.Result{}); err == nil {
		t.Error("a directory was written to")
	}
}
