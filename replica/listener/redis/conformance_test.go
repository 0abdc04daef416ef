package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/listenertest"
)

var identity = operation.Identity{
	Cluster: "test", Member: view.MemberID(3), Site: "japan", Protocol: "Gryff", Durability: "Sync",
}

// dialRedis connects a client that does not repeat what fails.
func dialRedis(t *testing.T, address string, version int) *redis.Client {
	client := redis.NewClient(
		&redis.Options{Addr: address, Protocol: version, MaxRetries: -1, ReadTimeout: listenertest.Bound})
	t.Cleanup(func() { client.Close() })
	return client
}

// words splits a command; _ stands for an empty argument.
func words(command string) []any {
	var args []any
	for _, word := range strings.Fields(command) {
		if word == "_" {
			word = ""
		}
		args = append(args, word)
	}
	return args
}

// TestConformance runs every string and generic command in a script, with a fresh store for each group.
// A want of nil is null; an error wants its text.
func TestConformance(t *testing.T) {
	type line struct {
		command string
		want    any
	}
	failed := func(text string) error { return errors.New(text) }
	notInteger := failed("ERR value is not an integer or out of range")
	groups := map[string][]line{
		"set": {
			{"GET k", nil}, {"SET k v", "OK"}, {"GET k", "v"}, {"set K w", "OK"}, {"GET k", "v"},
			{"SET k _", "OK"}, {"GET k", ""},
			{"SET k x NX", nil}, {"SET k x XX", "OK"}, {"SET n x XX", nil}, {"SET n x NX", "OK"}, {"GET n", "x"},
			{"SET k y GET", "x"}, {"SET m y GET", nil}, {"GET m", "y"},
			{"SET k z NX GET", "y"}, {"GET k", "y"}, {"SET k z xx get", "y"}, {"GET k", "z"},
			{"SET q z NX GET", nil}, {"GET q", "z"}, {"SET r z XX GET", nil}, {"GET r", nil},
			{"SET k v NX XX", failed("ERR syntax error")}, {"SET k v FOO", failed("ERR syntax error")},
			{"SET k v EX 10", failed("ERR SET option EX is not supported: this store has no expiry yet")},
			{"SET k v KEEPTTL", failed("ERR SET option KEEPTTL is not supported: this store has no expiry yet")},
			{"SET k", failed("ERR wrong number of arguments for 'set' command")}, {"GET k", "z"},
		},
		"old values": {
			{"SETNX k a", int64(1)}, {"SETNX k b", int64(0)}, {"GETSET k b", "a"},
			{"GETSET n b", nil}, {"GETDEL k", "b"},
			{"GETDEL k", nil}, {"GET k", nil}, {"GET n", "b"}, {"SETNX e _", int64(1)}, {"GETDEL e", ""},
		},
		"keys": {
			{"MSET a 1 b 2 c 3", "OK"}, {"MGET a x c", []any{"1", nil, "3"}}, {"EXISTS a x a", int64(2)},
			{"TYPE a", "string"},
			{"TYPE x", "none"}, {"DEL a x", int64(1)}, {"UNLINK b c c", int64(2)}, {"MGET a b c", []any{nil, nil, nil}},
			{"MSET a 1 b", failed("ERR wrong number of arguments for 'mset' command")},
			{"DEL", failed("ERR wrong number of arguments for 'del' command")},
			{"MSET a 1 a 2", "OK"}, {"GET a", "2"},
			{"GET _", failed("ERR the key is empty; give at least one byte")},
		},
		"strings": {
			{"STRLEN k", int64(0)}, {"APPEND k Hello", int64(5)}, {"APPEND k World", int64(10)},
			{"STRLEN k", int64(10)},
			{"GETRANGE k 0 4", "Hello"}, {"GETRANGE k -5 -1", "World"}, {"GETRANGE k 0 -1", "HelloWorld"},
			{"GETRANGE k 8 100", "ld"},
			{"GETRANGE k 4 2", ""}, {"GETRANGE k -1 -5", ""}, {"GETRANGE k -100 0", "H"}, {"GETRANGE x 0 -1", ""},
			{"GETRANGE k a 1", notInteger}, {"SETRANGE k 5 Redis", int64(10)}, {"GET k", "HelloRedis"},
			{"SETRANGE p 2 x", int64(3)}, {"GET p", "\x00\x00x"}, {"SETRANGE z 2 _", int64(0)}, {"GET z", nil},
			{"SETRANGE k -1 x", failed("ERR offset is out of range")}, {"SETRANGE k x x", notInteger},
			{"SETRANGE k 2000000 x", failed("ERR value of 2000001 bytes is too large: the limit is 1048576 bytes")},
		},
		"numbers": {
			{"INCR n", int64(1)}, {"INCRBY n 41", int64(42)}, {"DECR n", int64(41)},
			{"DECRBY n 40", int64(1)}, {"GET n", "1"},
			{"INCRBY n -2", int64(-1)}, {"INCRBY n 1.5", notInteger}, {"INCRBY n 01", notInteger},
			{"DECRBY n x", notInteger},
			{"DECRBY n -9223372036854775808", failed("ERR decrement would overflow")},
			{"SET n 9223372036854775807", "OK"}, {"INCR n", failed("ERR increment or decrement would overflow")},
			{"GET n", "9223372036854775807"}, {"SET s abc", "OK"}, {"INCR s", notInteger},
			{"INCRBYFLOAT s 1", failed("ERR value is not a valid float")},
			{"INCRBYFLOAT f 10.5", "10.5"}, {"INCRBYFLOAT f -5.25", "5.25"},
			{"INCRBYFLOAT f x", failed("ERR value is not a valid float")},
			{"INCRBYFLOAT f inf", failed("ERR increment would produce NaN or Infinity")},
		},
		"compare and swap": {
			{"CAS k a b", int64(0)}, {"SET k a", "OK"}, {"CAS k a b", int64(1)},
			{"CAS k a c", int64(0)}, {"GET k", "b"},
			{"CAS k a", failed("ERR wrong number of arguments for 'cas' command")},
		},
		"connection": {
			{"PING", "PONG"}, {"PING hi", "hi"},
			{"PING a b", failed("ERR wrong number of arguments for 'ping' command")},
			{"ECHO hi", "hi"}, {"SELECT 0", "OK"},
			{"SELECT 1", failed("ERR DB index is out of range: this store has database 0 only")},
			{"SELECT x", failed("ERR invalid DB index")}, {"CLIENT SETNAME me", "OK"}, {"CLIENT GETNAME", "me"},
			{"CLIENT SETINFO lib-name lib", "OK"}, {"CLIENT SETINFO foo bar", failed("ERR Unrecognized option 'foo'")},
			{"CLIENT ID x", failed("ERR wrong number of arguments for 'client|id' command")},
			{"CLIENT KILL x",
				failed("ERR unknown subcommand 'KILL'. Known are SETNAME, GETNAME, ID, SETINFO and INFO.")},
			{"AUTH x", failed("ERR AUTH <password> called without any password configured for the default user. " +
				"Are you sure your configuration is correct?")},
			{"HELLO 4", failed("NOPROTO unsupported protocol version")},
			{"HELLO x", failed("ERR Protocol version is not an integer or out of range")},
			{"HELLO 3 FOO", failed("ERR Syntax error in HELLO option 'FOO'")},
			{"COMMAND COUNT", int64(len(table()))}, {"READONLY", "OK"}, {"SET k v", "OK"}, {"GET k", "v"},
			{"READWRITE", "OK"}, {"GET k", "v"},
			{"READONLY x", failed("ERR wrong number of arguments for 'readonly' command")},
			{"CONFIG SET save x",
				failed("ERR CONFIG SET is not supported: the cluster is configured by its manifest; CONFIG GET " +
					"is served")},
			{"RESET", "RESET"}, {"CLIENT GETNAME", nil}, {"FENCE", "OK"}, {"fence", "OK"},
			{"FENCE x", failed("ERR unknown subcommand 'x'. Known are EXPORT and IMPORT; without one, FENCE waits.")},
			{"FENCE EXPORT x", failed("ERR wrong number of arguments for 'fence|export' command")},
			{"FENCE IMPORT", failed("ERR wrong number of arguments for 'fence|import' command")},
			{"FENCE EXPORT", "\x02\x00"}, {"FENCE IMPORT \x02\x00", "OK"},
			{"FENCE IMPORT x",
				failed("ERR not the past of a session: it does not begin with 2; use the same release everywhere; " +
					"give what FENCE EXPORT replied")},
		},
		"refusals": {
			{"KEYS *",
				failed("ERR unknown command 'keys': this store can't enumerate its keys, every key is a register of " +
					"its own")},
			{"EXPIRE k 1", failed("ERR unknown command 'expire': this store has no expiry yet")},
			{"FROB a b", failed("ERR unknown command 'FROB', with args beginning with: 'a' 'b' ")},
			{"LPUSH k v",
				failed("ERR unknown command 'lpush': this store has strings only, no hashes, lists, sets, sorted " +
					"sets or streams; " +
					"COMMAND lists what is served")},
			{"RENAME a b",
				failed("ERR unknown command 'rename': this store has no transactions over several keys, every key is " +
					"linearizable for itself")},
		},
		"transactions": {
			{"EXEC", failed("ERR EXEC without MULTI")}, {"DISCARD", failed("ERR DISCARD without MULTI")},
			{"MULTI", "OK"}, {"EXEC", []any{}}, {"MULTI", "OK"},
			{"MULTI", failed("ERR MULTI calls can not be nested")},
			{"SET n 5", "QUEUED"}, {"INCR n", "QUEUED"}, {"GET n", "QUEUED"}, {"SET n x NX", "QUEUED"},
			{"GETRANGE n 0 -1", "QUEUED"}, {"MGET n n", "QUEUED"}, {"EXISTS n n", "QUEUED"}, {"STRLEN n", "QUEUED"},
			{"TYPE n", "QUEUED"}, {"DEL n n", "QUEUED"}, {"GET n", "QUEUED"}, {"MSET n a n b", "QUEUED"},
			{"EXEC", []any{"OK", int64(6), "6", nil, "6", []any{"6", "6"}, int64(2), int64(1), "string", int64(1), nil,
				"OK"}},
			{"GET n", "b"}, {"MULTI", "OK"}, {"INCR n", "QUEUED"}, {"APPEND n c", "QUEUED"},
			{"EXEC", []any{"ERR value is not an integer or out of range", int64(2)}}, {"GET n", "bc"},
			{"MULTI", "OK"}, {"SET n d", "QUEUED"}, {"DISCARD", "OK"}, {"GET n", "bc"},
			{"MULTI", "OK"}, {"SET n d", "QUEUED"},
			{"FROB", failed("ERR unknown command 'FROB', with args beginning with: ")},
			{"GET n", "QUEUED"}, {"EXEC", failed("EXECABORT Transaction discarded because of previous errors.")},
			{"GET n", "bc"}, {"MULTI", "OK"}, {"SET n d", "QUEUED"},
			{"SET m d", failed("ERR MULTI holds commands on one key here, and this is another one: send them without " +
				"MULTI (redis-py: pipeline(transaction=False), go-redis: Pipelined)")},
			{"EXEC", failed("EXECABORT Transaction discarded because of previous errors.")}, {"EXISTS n m", int64(1)},
			{"MULTI", "OK"}, {"PING", failed("ERR PING is not served within MULTI, which holds commands on one key")},
			{"WATCH n", failed("ERR WATCH inside MULTI is not allowed")}, {"RESET", "RESET"}, {"GET n", "bc"},
			{"WATCH n", "OK"}, {"MULTI", "OK"}, {"APPEND n d", "QUEUED"}, {"EXEC", []any{int64(3)}},
			{"WATCH n", "OK"}, {"SET n e", "OK"}, {"MULTI", "OK"}, {"APPEND n f", "QUEUED"}, {"EXEC", nil},
			{"GET n", "e"},
			{"WATCH n", "OK"}, {"SET n f", "OK"}, {"UNWATCH", "OK"}, {"MULTI", "OK"}, {"APPEND n g", "QUEUED"},
			{"EXEC", []any{int64(2)}}, {"WATCH n", "OK"}, {"SET n h", "OK"}, {"MULTI", "OK"}, {"EXEC", nil},
			{"WATCH n n", "OK"}, {"WATCH n", "OK"},
			{"WATCH m", failed("ERR WATCH and MULTI are about one key here; UNWATCH ends it for the one before")},
			{"MULTI", "OK"},
			{"GET m", failed("ERR WATCH and MULTI are about one key here, and this one was not watched; UNWATCH " +
				"first")},
			{"DISCARD", "OK"}, {"WATCH m", "OK"}, {"MULTI", "OK"}, {"SET m 1", "QUEUED"}, {"EXEC", []any{"OK"}},
			{"WATCH m", "OK"}, {"DEL m", int64(1)}, {"MULTI", "OK"}, {"SET m 2", "QUEUED"}, {"EXEC", nil},
			{"GET m", nil},
		},
	}
	for i, version := range []int{2, 3, 2} {
		for name, lines := range groups {
			mine, store := identity, &listenertest.Memory{}
			var proofs *proof.Keys
			if i == 2 {
				mine.Protocol, store.Regular, proofs = "GryffRSC", true, listenertest.Keys
			}
			t.Run(fmt.Sprintf("%s/RESP%d/%s", mine.Protocol, version, name), func(t *testing.T) {
				_, address := serveRedis(t,
					Options{Options: operation.Options{Identity: mine, Store: store, Proofs: proofs}})
				conn := dialRedis(t, address, version).Conn() // one connection: the script has state
				defer conn.Close()
				for _, line := range lines {
					got, err := conn.Do(context.Background(), words(line.command)...).Result()
					if errors.Is(err, redis.Nil) {
						got, err = nil, nil
					}
					if all, several := got.([]any); several {
						for i := range all {
							if failed, ok := all[i].(error); ok {
								all[i] = failed.Error()
							}
						}
					}
					if want, ok := line.want.(error); ok {
						if err == nil || err.Error() != want.Error() {
							t.Errorf("%s: got %v, %v\nwant %v", line.command, got, err, want)
						}
					} else if err != nil || !reflect.DeepEqual(got, line.want) {
						t.Errorf("%s: got %#v, %v\nwant %#v", line.command, got, err, line.want)
					}
				}
			})
		}
	}
}

// TestTypedCalls uses go-redis as programs do, where it interprets replies by itself.
func TestTypedCalls(t *testing.T) {
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", version), func(t *testing.T) {
			ctx := context.Background()
			_, address := serveRedis(t, Options{Options: operation.Options{Identity: identity}})
			client := dialRedis(t, address, version)
			hello, err := client.Do(ctx, "HELLO", version).Result()
			if version == 3 {
				fields, ok := hello.(map[any]any)
				if err != nil || !ok || fields["proto"] != int64(3) || fields["server"] != "georegister" {
					t.Errorf("HELLO 3 is %v, %v", hello, err)
				}
			} else if fields, ok := hello.([]any); err != nil || !ok || len(fields) != 14 {
				t.Errorf("HELLO 2 is %v, %v", hello, err)
			}
			config, err := client.ConfigGet(ctx, "append*").Result()
			if err != nil ||
				!reflect.DeepEqual(config, map[string]string{"appendonly": "yes", "appendfsync": "always"}) {
				t.Errorf("CONFIG GET is %v, %v", config, err)
			}
			info, err := client.Info(ctx, "server").Result()
			if err != nil || !strings.Contains(info, "georegister_site:japan") || strings.Contains(info, "# Stats") {
				t.Errorf("INFO server is %q, %v", info, err)
			}
			commands, err := client.Command(ctx).Result()
			if err != nil || len(commands) != len(table()) || commands["mset"].StepCount != 2 ||
				!commands["get"].ReadOnly {
				t.Errorf("COMMAND has %d commands, %v", len(commands), err)
			}
			docs, err := client.Do(ctx, "COMMAND", "DOCS", "cas", "nope").Result()
			if err != nil || !strings.Contains(fmt.Sprint(docs), "expected one") {
				t.Errorf("COMMAND DOCS is %v, %v", docs, err)
			}
			some, err := client.Do(ctx, "COMMAND", "INFO", "get", "nope").Slice()
			if err != nil || len(some) != 2 || some[1] != nil {
				t.Errorf("COMMAND INFO is %v, %v", some, err)
			}
			mine, err := client.ClientInfo(ctx).Result()
			if err != nil || mine.LibName == "" {
				t.Errorf("CLIENT INFO is %v, %v", mine, err)
			}
			id, err := client.ClientID(ctx).Result()
			if err != nil || id < 1 {
				t.Errorf("CLIENT ID is %d, %v", id, err)
			}
			got, err := client.SetArgs(ctx, "k", "v", redis.SetArgs{Mode: "NX"}).Result()
			if err != nil || got != "OK" {
				t.Errorf("SET NX is %q, %v", got, err)
			}
			if _, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "tx", "v", 0)
				p.Set(ctx, "other", "v", 0)
				return nil
			}); err == nil {
				t.Error("a transaction over two keys succeeded")
			}
			if n, err := client.Exists(ctx, "tx", "other").Result(); err != nil || n != 0 {
				t.Errorf("a command of a refused transaction took effect: %d, %v", n, err)
			}
			var counted *redis.IntCmd
			err = client.Watch(ctx, func(tx *redis.Tx) error {
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Set(ctx, "tx", "7", 0)
					counted = p.Incr(ctx, "tx")
					return nil
				})
				return err
			}, "tx")
			if err != nil || counted.Val() != 8 {
				t.Errorf("a transaction on one key: %v, %v", counted, err)
			}
			err = client.Watch(ctx, func(tx *redis.Tx) error {
				if err := client.Set(ctx, "tx", "9", 0).Err(); err != nil {
					return err
				}
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, "tx").Err() })
				return err
			}, "tx")
			if !errors.Is(err, redis.TxFailedErr) {
				t.Errorf("a transaction after another client's write: %v", err)
			}
		})
	}
}

func TestBinaryAndBigValues(t *testing.T) {
	ctx := context.Background()
	_, address := serveRedis(t,
		Options{Options: operation.Options{Limits: register.Limits{KeyBytes: 300, ValueBytes: 1 << 20}}})
	client := dialRedis(t, address, 3)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	big := bytes.Repeat([]byte("x\r\n\x00"), 1<<18)
	for _, value := range [][]byte{all, big} {
		if err := client.Set(ctx, string(all), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Get(ctx, string(all)).Bytes(); err != nil || !bytes.Equal(got, value) {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(value))
		}
	}
	conn := client.Conn()
	defer conn.Close()
	for _, test := range []struct {
		command []any
		want    string
	}{
		{[]any{"SET", "k", append(big, 'x')}, "ERR value of 1048577 bytes is too large: the limit is 1048576 bytes"},
		{[]any{"GET", strings.Repeat("k", 301)}, "ERR key of 301 bytes is too large: the limit is 300 bytes"},
		{[]any{"SET", append(big, 'x'), "v"}, "ERR key of 1048577 bytes is too large: the limit is 300 bytes"},
		{[]any{"APPEND", string(all), "x"}, "ERR value of 1048577 bytes is too large: the limit is 1048576 bytes"},
	} {
		if err := conn.Do(ctx, test.command...).Err(); err == nil || err.Error() != test.want {
			t.Errorf("%v: %v\nwant %s", test.command[0], err, test.want)
		}
		if err := conn.Ping(ctx).Err(); err != nil {
			t.Fatalf("the connection did not live on: %v", err)
		}
	}
}

// TestPipelineOrder sends long pipelines to a store that answers out of order: replies must come in order,
// and commands on one key must take effect in order.
func TestPipelineOrder(t *testing.T) {
	ctx := context.Background()
	store := &listenertest.Memory{Delay: 2 * time.Millisecond, Shuffle: true}
	_, address := serveRedis(t, Options{Options: operation.Options{Store: store, MaxInFlight: 50}})
	client := dialRedis(t, address, 3)
	pipe := client.Pipeline()
	type expected struct {
		got  *redis.StringCmd
		want string
	}
	var reads []expected
	for i := range 100 {
		for k := range 3 {
			key, value := fmt.Sprint("k", k), fmt.Sprint(i)
			pipe.Set(ctx, key, value, 0)
			reads = append(reads, expected{pipe.Get(ctx, key), value})
		}
	}
	counts := make([]*redis.IntCmd, 50)
	for i := range counts {
		counts[i] = pipe.Incr(ctx, "n")
		pipe.Ping(ctx)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for i, read := range reads {
		if read.got.Val() != read.want {
			t.Fatalf("GET %d is %s, want %s", i, read.got.Val(), read.want)
		}
	}
	for i, count := range counts {
		if count.Val() != int64(i+1) {
			t.Fatalf("INCR %d is %d", i, count.Val())
		}
	}
}
