package storage

import (
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// failure is the first reason why the disk can't be trusted any more.
type failure struct {
	mutex sync.Mutex
	err   error
	done  chan struct{}
}

func newFailure() *failure { return &failure{done: make(chan struct{})} }

func (f *failure) set(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.err == nil {
		f.err = err
		close(f.done)
	}
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

// Fatalf is called where the database can't go on: a failed write or fsync of its log or manifest. It must
// not return, since what follows it takes success for granted (such as deleting the log that a manifest
// replaces). Ending the process is not ours to do. So the member is told, and the goroutine stays here.
func (l databaseLog) Fatalf(format string, args ...any) {
	l.failure.set(fmt.Errorf("disk failed: "+format, args...))
	l.Errorf(format, args...)
	select {}
}

func newDatabaseLog(logger *zap.Logger, f *failure) databaseLog {
	return databaseLog{logger.Named("pebble").Sugar(), f}
}
