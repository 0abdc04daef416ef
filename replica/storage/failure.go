package storage

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/durable"
)

// damaged reports whether an error says that the disk does not hold what was written to it. What the machine refuses is
// another matter: the disk may hold everything.
func damaged(err error) bool {
	return errors.Is(err, durable.ErrDamaged) || pebble.IsCorruptionError(err) || errors.Is(err, os.ErrNotExist)
}

// failure is the first reason why the disk can't be trusted any more.
type failure struct {
	mutex sync.Mutex
	err   error
	done  chan struct{}
	note  func(damage error) // makes damage known to the next start
}

func newFailure(note func(error)) *failure { return &failure{done: make(chan struct{}), note: note} }

// set takes the first reason. Damage is durably noted before anybody learns that the store is done, and ends the
// process: so who comes with another reason meanwhile waits, too.
func (f *failure) set(err error) {
	f.mutex.Lock()
	first := f.err == nil
	if first {
		f.err = err
	}
	f.mutex.Unlock()
	if !first {
		<-f.done
		return
	}
	if damaged(err) {
		f.note(err)
	}
	close(f.done)
}

func (f *failure) reason() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}

// databaseLog receives what the database says.
type databaseLog struct {
	*zap.SugaredLogger
	failure *failure
}

// Infof drops what is routine; the metrics tell of it.
func (l databaseLog) Infof(string, ...any) {}

// Fatalf is called where the database can't go on: a failed write or fsync of its log or manifest, a table that is
// gone. It must not return, since what follows it takes success for granted (such as deleting the log that a manifest
// replaces). Ending the process is not ours to do. So the member is told, and the goroutine stays here.
func (l databaseLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf("disk failed: "+format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = told{err.Error(), cause}
		}
	}
	l.failure.set(err)
	l.Errorf(format, args...)
	select {}
}

// told is an error in the database's words, which do not wrap its cause.
type told struct {
	text  string
	cause error
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.cause }

func newDatabaseLog(logger *zap.Logger, f *failure) databaseLog {
	return databaseLog{logger.Named("pebble").Sugar(), f}
}
