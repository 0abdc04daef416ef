// Command tc stands in for tc in the image of Chaos Mesh's daemon. Where the kernel has the queueing disciplines that a
// delay takes (netem, prio and sfq), it is the real tc, /usr/sbin/tc. Where it lacks them, packets are delayed by a
// process: each class of a device gets a queue of netfilter's, and the process lets packets go when they are due.
//
// There is one such process, the delayer, per network namespace that has delays. It is reached by an abstract socket,
// which exists in that namespace alone, and ends with its last tree or with its devices.
//
//	tc qdisc add|del|show ...   what Chaos Mesh's daemon calls
//	tc delayers                 lists the delayers of all pods of the node, and what each link has done
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/georegister/georegister/hack/chaos-mesh/netem"
)

const (
	realTC  = "/usr/sbin/tc"
	decided = "/run/tc-decided"          // what the probe of this container said
	logFile = "/var/log/tc-delayers.log" // of all the node's delayers
	address = "@georegister-tc-delayer"  // of a namespace's delayer

	// delayerName is the first argument of a delayer, by which it is found in a list of processes.
	delayerName = "tc-delayer"
)

// answer is what a delayer says to a call.
type answer struct {
	Out     string // what tc prints
	Failed  string // why it could not, or nothing
	Nothing bool   // there is nothing to delete
}

func main() {
	if os.Args[0] == delayerName {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339), err)
			os.Exit(1)
		}
		return
	}
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	// Chaos Mesh compares what tc says: no word may stand before it.
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "delayers" {
		return list()
	}
	if kernelDelays() {
		return fmt.Errorf("run %s: %w", realTC, syscall.Exec(realTC, append([]string{realTC}, args...), os.Environ()))
	}
	command, err := netem.Parse(args)
	if err != nil {
		return err
	}
	a, err := call(args)
	switch {
	case err != nil && command.Verb == netem.Add:
		if err := start(); err != nil {
			return fmt.Errorf("start the delayer: %w (see %s)", err, logFile)
		}
		if a, err = call(args); err != nil {
			return fmt.Errorf("call the delayer: %w (see %s)", err, logFile)
		}
	case err != nil && command.Verb == netem.Del:
		removeRules() // of a delayer that was killed
		return netem.ErrNothing
	case err != nil:
		return nil // there is nothing to show
	}
	fmt.Print(a.Out)
	switch {
	case a.Nothing:
		return netem.ErrNothing
	case a.Failed != "":
		return errors.New(a.Failed)
	}
	return nil
}

// kernelDelays tells whether this kernel has all disciplines that a delay takes. The real tc is asked, in a network
// namespace that ends with it: only an attempt loads modules. What it said holds for the life of the container.
func kernelDelays() bool {
	if said, err := os.ReadFile(decided); err == nil {
		return string(said) == "kernel"
	}
	said := "kernel"
	for _, kind := range []string{"netem delay 1ms", "prio bands 4", "sfq"} {
		args := append([]string{"qdisc", "replace", "dev", "lo", "root", "handle", "1:"}, strings.Fields(kind)...)
		probe := exec.Command(realTC, args...)
		probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if probe.Run() != nil {
			said = "delayer"
		}
	}
	// By a rename, as calls for several pods may be the first at once.
	scratch := fmt.Sprintf("%s.%d", decided, os.Getpid())
	if os.WriteFile(scratch, []byte(said), 0o644) == nil {
		_ = os.Rename(scratch, decided) // else the next call probes again
	}
	return said == "kernel"
}

// call has the delayer of this network namespace carry out a command. It fails if there is none.
func call(args []string) (a answer, err error) {
	c, err := net.Dial("unix", address)
	if err != nil {
		return a, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(args); err != nil {
		return a, err
	}
	return a, json.NewDecoder(c).Decode(&a)
}

// start starts a delayer in this network namespace, and returns once it answers.
func start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	favour()
	delayer := exec.Command(self)
	delayer.Args = []string{delayerName}
	delayer.Stderr = log
	delayer.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives this call
	ready, err := delayer.StdoutPipe()
	if err != nil {
		return err
	}
	if err := delayer.Start(); err != nil {
		return err
	}
	if n, err := ready.Read(make([]byte, 1)); n == 1 {
		return nil
	} else if _, err2 := call([]string{"qdisc", "show"}); err2 == nil {
		return nil // another call was faster
	} else {
		return fmt.Errorf("it ended at once: %w", err)
	}
}
