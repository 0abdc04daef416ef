package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
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

func (o *operator) usage() (u usage, err error) {
	process, err := procfs.NewProc(o.command.Process.Pid)
	if err != nil {
		return u, fmt.Errorf("the operator has ended, its log is %s: %w", o.log.Name(), err)
	}
	stat, err := process.Stat()
	if err != nil {
		return u, fmt.Errorf("what the operator has used: %w", err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return u, fmt.Errorf("what the operator has used: %w", err)
	}
	return usage{
		cpu:      time.Duration(stat.CPUTime() * float64(time.Second)),
		resident: int(status.VmRSS >> 20), peak: int(status.VmHWM >> 20),
	}, nil
}
