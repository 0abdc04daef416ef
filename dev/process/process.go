// Package process runs a member or a witness as a child of this process.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errorPrefix begins the last line of a member that says why it ends.
const errorPrefix = "georegister: "

// Process is a member, or a witness, that runs as a child.
type Process struct {
	command *exec.Cmd
	input   io.Closer // the child ends when it ends, also if this process is killed
	log     *os.File
	ended   chan struct{} // closed when the child has ended
	errors  *tail
	mu      sync.Mutex
	wanted  bool // it was told to end
	ordered bool // and to do so in order
	err     error
}

// Config is the file in a directory with the configuration that a process is started with.
const Config = "config.json"

// Start starts `BINARY SUBCOMMAND --config FILE` with its configuration and its log in a directory of its own.
func Start(binary, subcommand, directory string) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(directory, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	p := &Process{ended: make(chan struct{}), errors: &tail{}, log: log}
	p.command = exec.Command(binary, subcommand, "--config", filepath.Join(directory, Config))
	p.command.Stdout = log
	p.command.Stderr = io.MultiWriter(log, p.errors)
	// Its own group: Ctrl-C on the terminal is for this process, which ends the children in order.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.input, err = p.command.StdinPipe(); err == nil {
		err = p.command.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", binary, err), log.Close())
	}
	go p.wait()
	return p, nil
}

func (p *Process) wait() {
	err := p.command.Wait()
	_ = p.log.Close() // what the child wrote went around it
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	close(p.ended)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Running reports whether the child has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Died reports whether the child has ended other than in order: what others heard of it is over.
func (p *Process) Died() bool {
	if p.Running() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ordered
}

// Crashed says why the child ended by itself; empty if it has not.
func (p *Process) Crashed() string {
	if p.Running() {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.wanted:
		return ""
	case strings.HasPrefix(p.errors.last(), errorPrefix):
		return strings.TrimPrefix(p.errors.last(), errorPrefix)
	case p.err != nil:
		return p.err.Error()
	}
	return "it ended"
}

// Wait waits until the child has ended.
func (p *Process) Wait() { <-p.ended }

// Kill ends the child as a crash would, and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.Wait()
}

// Stop asks the child to end, and kills it if it has not within the time given.
func (p *Process) Stop(within time.Duration) error {
	p.mu.Lock()
	p.ordered = true
	p.mu.Unlock()
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("process %d did not stop within %s and was killed", p.PID(), within)
	}
}

// Signal sends a signal unless the child has ended: its id may be another process's by then. os.Process
// knows that it was waited for.
func (p *Process) Signal(signal syscall.Signal) {
	p.mu.Lock()
	p.wanted = true
	p.mu.Unlock()
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.input.Close() // the other way to tell it
	}
}

// tail keeps the last line that was written.
type tail struct {
	mu   sync.Mutex
	text string
}

const tailBytes = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text += string(b)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(t.text), "\n")
	return lines[len(lines)-1]
}
