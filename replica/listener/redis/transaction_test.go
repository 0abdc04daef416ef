package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

// expectReplies runs commands on one connection. A reply that begins with a word in capitals may be an error.
func expectReplies(t *testing.T, conn *redis.Conn, lines ...[2]string) {
	t.Helper()
	for _, line := range lines {
		got, err := conn.Do(context.Background(), words(line[0])...).Result()
		if text := fmt.Sprint(got); err != nil {
			text = err.Error()
			if !strings.HasPrefix(text, line[1]) {
				t.Errorf("%s: %s, want %s", line[0], text, line[1])
			}
		} else if text != line[1] {
			t.Errorf("%s: %s, want %s", line[0], text, line[1])
		}
	}
}

func TestProtocolsWithoutRMWsRefuseTransactions(t *testing.T) {
	for _, protocol := range []string{"ABD", "Gus", "RMWPaxosAtLeastOnce"} {
		mine := identity
		mine.Protocol = protocol
		_, address := serveRedis(t, Options{Options: operation.Options{Identity: mine}})
		conn := dialRedis(t, address, 2).Conn()
		defer conn.Close()
		expectReplies(t, conn, [][2]string{
			{"MULTI", "ERR not supported by protocol " + protocol + ": a transaction on one key is a " +
				"read-modify-write; use one of CASPaxos, CURP, CURPRaft, EPaxos, Gryff, GryffRSC, RMWPaxos, Raft"},
			{"SET k v", "EXECABORT not executed, since MULTI was refused; DISCARD or RESET ends this"},
			{"EXEC", "EXECABORT not executed, since MULTI was refused"}, {"EXISTS k", "0"},
			{"MULTI", "ERR not supported"}, {"DISCARD", "OK"}, {"SET k v", "OK"}, {"GET k", "v"},
		}...)
	}
}

func TestTransactionsAreBounded(t *testing.T) {
	_, address := serveRedis(t, Options{
		Options: operation.Options{Limits: register.Limits{KeyBytes: 8, ValueBytes: 1 << 20}},
	})
	conn := dialRedis(t, address, 3).Conn()
	defer conn.Close()
	expectReplies(t, conn, [2]string{"MULTI", "OK"})
	for range register.MaxCalls {
		expectReplies(t, conn, [2]string{"INCR n", "QUEUED"})
	}
	expectReplies(t, conn, [][2]string{
		{"INCR n", "ERR the commands of MULTI are too many: the limit is 1000"},
		{"EXEC", "EXECABORT Transaction discarded"}, {"EXISTS n", "0"}, {"MULTI", "OK"},
		{"SET n " + strings.Repeat("x", 700<<10), "QUEUED"},
		{"SET n " + strings.Repeat("x", 700<<10),
			"ERR the commands of MULTI are too large together: the limit is 1048576 bytes"},
		{"EXEC", "EXECABORT Transaction discarded"}, {"EXISTS n", "0"},
		{"SET n " + strings.Repeat("x", 700<<10), "OK"}, {"MULTI", "OK"}, {"GET n", "QUEUED"}, {"GET n", "QUEUED"},
		{"EXEC", "ERR the replies have more than 1048576 bytes in all"}, {"STRLEN n", "716800"},
	}...)
}

// What a client watches may come after it has asked for EXEC: both are sent at once.
func TestAPipelinedTransactionWaitsForWhatItWatches(t *testing.T) {
	store := &listenertest.Held{}
	_, address := serveRedis(t, Options{Options: operation.Options{Store: store}})
	client := dialRedis(t, address, 2)
	ended := make(chan []redis.Cmder, 1)
	go func() {
		all, _ := client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for _, command := range []string{"WATCH k", "MULTI", "SET k 1", "INCR k", "EXEC"} {
				p.Do(context.Background(), words(command)...)
			}
			return nil
		})
		ended <- all
	}()
	for range 2 { // the read, and then the rmw
		listenertest.WaitUntil(t, "an operation is submitted", func() bool { return store.Count() == 1 })
		store.Release(0)
	}
	all := <-ended
	if got, err := all[4].(*redis.Cmd).Result(); err != nil || fmt.Sprint(got) != "[OK 2]" {
		t.Errorf("EXEC: %v, %v", got, err)
	}
}

func TestATransactionWhoseWatchFailedIsNotExecuted(t *testing.T) {
	store := &listenertest.Memory{Intercept: func(op register.Operation) (register.Result, bool, bool) {
		return register.Result{Status: register.Unavailable, Message: "no"}, false, op.Kind == register.Read
	}}
	_, address := serveRedis(t, Options{Options: operation.Options{Store: store}})
	conn := dialRedis(t, address, 2).Conn()
	defer conn.Close()
	expectReplies(t, conn, [][2]string{
		{"WATCH k", "TRYAGAIN no quorum answered"}, {"MULTI", "OK"}, {"SET k 1", "QUEUED"},
		{"EXEC", "EXECABORT not executed, since WATCH could not read the key"},
		{"MULTI", "OK"}, {"SET k 1", "QUEUED"}, {"EXEC", "[OK]"},
	}...)
}

func TestWhatATransactionHoldsIsCounted(t *testing.T) {
	for _, end := range []string{"DISCARD", "EXEC", "RESET"} {
		memory, address := serveBounded(t, 64*mib)
		conn := dialRedis(t, address, 2).Conn()
		defer conn.Close()
		expectReplies(t, conn, [][2]string{{"MULTI", "OK"}, {"SET k " + strings.Repeat("x", 4*mib), "QUEUED"}}...)
		listenertest.WaitUntil(t, "what is held is counted", func() bool {
			return memory.Used() >= 4*mib && memory.Used() < 5*mib
		})
		if err := conn.Do(context.Background(), end).Err(); err != nil {
			t.Errorf("%s: %v", end, err)
		}
		listenertest.WaitUntil(t, "what was held is free", func() bool { return memory.Used() < mib })
	}
}

// What many clients read, compute and write under WATCH is added up as if each had come alone.
func TestNoUpdateUnderWatchIsLost(t *testing.T) {
	const clients, updates = 8, 25
	_, address := serveRedis(t, Options{
		Options: operation.Options{Store: &listenertest.Memory{Delay: time.Millisecond, Shuffle: true}},
	})
	var group errgroup.Group
	for range clients {
		client := dialRedis(t, address, 3)
		group.Go(func() error {
			for done := 0; done < updates; {
				err := client.Watch(t.Context(), func(tx *redis.Tx) error {
					n, err := tx.Get(t.Context(), "n").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
						return p.Set(t.Context(), "n", n+1, 0).Err()
					})
					return err
				}, "n")
				switch {
				case err == nil:
					done++
				case !errors.Is(err, redis.TxFailedErr):
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n, err := dialRedis(t, address, 3).Get(t.Context(), "n").Int(); err != nil || n != clients*updates {
		t.Errorf("%d, %v", n, err)
	}
}
