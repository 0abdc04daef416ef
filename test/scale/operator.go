package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// operator is the operator under test, a process of its own, so that what it uses is its own.
type operator struct {
	command *exec.Cmd
	log     *os.File
	ended   chan struct{} // closed when the process has ended
}

// startOperator starts a binary as the operator of all namespaces, with a lease as the chart has it. It logs into the
// directory, which exists. More are arguments that come after the others.
func startOperator(binary, kubeconfig, directory string, more []string) (*operator, error) {
	log, err := os.Create(filepath.Join(directory, "operator.log"))
	if err != nil {
		return nil, err
	}
	arguments := []string{"run", "--namespaces", "*", "--namespace", operatorNamespace, "--leader-elect",
		"--default-image", "georegister:scale", "--metrics-address", "0", "--health-address", "0"}
	command := exec.Command(binary, append(arguments, more...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: make build makes it: %w", binary, err), log.Close())
	}
	o := &operator{command: command, log: log, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // how it ended is in its log
		close(o.ended)
	}()
	return o, nil
}

// stop ends the operator in order, or, if it takes long, at once.
func (o *operator) stop() error {
	_ = o.command.Process.Signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case <-o.ended:
	case <-time.After(10 * time.Second):
		_ = o.command.Process.Kill() // fails only when it has ended
		<-o.ended
	}
	return o.log.Close()
}

// usage is what a process has used so far.
type usage struct {
	cpu            time.Duration // user and system
	resident, peak int           // memory in MiB
}

// ticksPerSecond is the unit of /proc/PID/stat: USER_HZ, which is 100 on every platform of Go.
const ticksPerSecond = 100

func (o *operator) usage() (u usage, err error) {
	directory := filepath.Join("/proc", strconv.Itoa(o.command.Process.Pid))
	stat, err := os.ReadFile(filepath.Join(directory, "stat"))
	if err != nil {
		return u, fmt.Errorf("the operator has ended, its log is %s: %w", o.log.Name(), err)
	}
	// The name, which is in parentheses, may have spaces; utime and stime are the 12th and 13th after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("%s/stat is too short: %q", directory, stat)
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return u, fmt.Errorf("%s/stat: %w", directory, err)
		}
		u.cpu += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	status, err := os.Open(filepath.Join(directory, "status"))
	if err != nil {
		return u, err
	}
	defer func() { _ = status.Close() }() // only read
	for lines := bufio.NewScanner(status); lines.Scan(); {
		var kib int
		if _, err := fmt.Sscanf(lines.Text(), "VmRSS: %d kB", &kib); err == nil {
			u.resident = kib >> 10
		}
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kib); err == nil {
			u.peak = kib >> 10
		}
	}
	return u, nil
}
