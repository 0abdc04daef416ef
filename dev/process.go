package dev

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

// process is a member, or a witness, that runs as a child.
type process struct {
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

// startProcess starts `BINARY SUBCOMMAND --config FILE` with its configuration and its log in a directory of its own.
func startProcess(binary, subcommand, directory string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(directory, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	p := &process{ended: make(chan struct{}), errors: &tail{}, log: log}
	p.command = exec.Command(binary, subcommand, "--config", filepath.Join(directory, configFile))
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

func (p *process) wait() {
	err := p.command.Wait()
	_ = p.log.Close() // what the child wrote went around it
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	close(p.ended)
}

// pid is the child's process id.
func (p *process) pid() int { return p.command.Process.Pid }

// running reports whether the child has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// died reports whether the child has ended other than in order: what others heard of it is over.
func (p *process) died() bool {
	if p.running() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ordered
}

// crashed says why the child ended by itself; empty if it has not.
func (p *process) crashed() string {
	if p.running() {
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

// kill ends the child as a crash would, and waits until it is gone.
func (p *process) kill() {
	p.end(syscall.SIGKILL)
	<-p.ended
}

// stop asks the child to end, and kills it if it has not within the time given.
func (p *process) stop(within time.Duration) error {
	p.mu.Lock()
	p.ordered = true
	p.mu.Unlock()
	p.end(syscall.SIGTERM)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("process %d did not stop within %s and was killed", p.pid(), within)
	}
}

// end sends a signal unless the child has ended: its id may be another process's by then. os.Process
// knows that it was waited for.
func (p *process) end(signal syscall.Signal) {
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

// slot holds the latest process of a member or a witness.
type slot struct {
	mu      sync.Mutex
	process *process
	emptied bool // its disk was removed, and it has not said on which one it is since
}

// current is that process, running or not.
func (s *slot) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// empty notes that the disk is about to be removed.
func (s *slot) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emptied = true
}

// named notes that the process has said on which disk it is: that decides, the view may name it.
func (s *slot) named() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emptied = false
}

// lost reports whether whom the view means is known to be gone: the process died, or the disk was removed.
func (s *slot) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emptied || s.process != nil && s.process.died()
}

func (s *slot) set(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
}
