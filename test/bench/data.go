package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/georegister/georegister/workload/bench"
)

// measurement is one cell of one round, as a data file keeps it: tables show medians, and not all figures.
type measurement struct {
	At         time.Time `json:"at"` // when the measurement ended
	Command    string    `json:"command"`
	Machine    string    `json:"machine"`
	System     string    `json:"system"`
	Workload   string    `json:"workload"`
	Durability string    `json:"durability"`
	Keys       int       `json:"keys"`
	ValueBytes int       `json:"valueBytes"`
	Clients    int       `json:"clients"`
	Depth      int       `json:"depth"`
	Rate       float64   `json:"offeredPerSecond,omitempty"` // absent: a closed loop
	Operations int64     `json:"operations"`
	Seconds    float64   `json:"seconds"`
	P50        float64   `json:"p50Milliseconds"`
	P99        float64   `json:"p99Milliseconds"`
	P999       float64   `json:"p999Milliseconds"`
	CPU        float64   `json:"cpuMicrosecondsPerOperation"` // of all servers together
}

// dataFile is where measurements are appended to, a line of JSON each; empty: nowhere.
type dataFile string

func (d *dataFile) flag(set *flag.FlagSet) {
	set.StringVar((*string)(d), "data", "", "a file to append each measurement of each round to, a line of JSON each")
}

// run measures a system, and adds what it measured.
func (d dataFile) run(
	ctx context.Context, command, system, workload, durability string, o bench.Options,
) (bench.Result, error) {
	r, err := bench.Run(ctx, o)
	if err == nil {
		err = d.add(command, system, workload, durability, o, r)
	}
	return r, err
}

// add appends what was measured of a system.
func (d dataFile) add(command, system, workload, durability string, o bench.Options, r bench.Result) error {
	if d == "" {
		return nil
	}
	file, err := os.OpenFile(string(d), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("-data: %w", err)
	}
	err = json.NewEncoder(file).Encode(measurement{
		At: time.Now().UTC().Truncate(time.Second), Command: command, Machine: machine(), System: system,
		Workload: workload, Durability: durability, Keys: o.Keys, ValueBytes: o.ValueBytes, Clients: o.Clients,
		Depth: max(o.Depth, 1), Rate: o.Rate, Operations: r.Operations, Seconds: r.Elapsed.Seconds(),
		P50: ms(r.P50), P99: ms(r.P99), P999: ms(r.P999),
		CPU: float64(r.CPUPerOperation().Nanoseconds()) / 1e3,
	})
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("-data %s: %w", d, err)
	}
	return nil
}
