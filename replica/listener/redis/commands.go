package redis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/listener/redis/resp"
	"github.com/georegister/georegister/replica/register"
)

// command is what the listener knows of one Redis command. Arity and key positions are as in COMMAND INFO.
type command struct {
	name     string
	arity    int // arguments with the name; negative: at least that many
	firstKey int // position of the first key; 0: none
	lastKey  int // of the last one; negative counts from the end
	keyStep  int
	kind     register.Kind // of the operation on each key, without options
	noAuth   bool          // allowed before AUTH
	group    string
	summary  string
	run      func(c *connection, k *call, args [][]byte) // gives the call its reply or its operations
	counters operation.Counters
}

const (
	groupString       = "string"
	groupGeneric      = "generic"
	groupTransactions = "transactions"
	groupConnection   = "connection"
	groupServer       = "server"
)

// table is every command that is served.
func table() []command {
	one := func(name string, arity int, kind register.Kind, summary string,
		run func(*connection, *call, [][]byte)) command {
		return command{name: name, arity: arity, firstKey: 1, lastKey: 1, keyStep: 1, kind: kind,
			group: groupString, summary: summary, run: run}
	}
	many := func(name string, step int, kind register.Kind, group, summary string,
		run func(*connection, *call, [][]byte)) command {
		return command{name: name, arity: -1 - step, firstKey: 1, lastKey: -1, keyStep: step, kind: kind,
			group: group, summary: summary, run: run}
	}
	plain := func(name string, arity int, noAuth bool, group, summary string,
		run func(*connection, *call, [][]byte)) command {
		return command{name: name, arity: arity, noAuth: noAuth, group: group, summary: summary, run: run}
	}
	return []command{
		one("get", 2, register.Read, "Returns the value of a key.", reading(renderValue)),
		one("set", -3, register.Write,
			"Sets the value of a key, with NX or XX only if it is absent or present.", runSet),
		one("setnx", 3, register.RMW, "Sets the value of a key if it is absent.",
			updating(register.SetIfAbsent, renderInt)),
		one("getset", 3, register.RMW, "Sets the value of a key and returns the old one.",
			updating(register.GetAndSet, renderValue)),
		one("getdel", 2, register.RMW, "Deletes a key and returns its value.",
			updating(register.GetAndDelete, renderValue)),
		one("strlen", 2, register.Read, "Returns the length of a value.", reading(renderLength)),
		one("append", 3, register.RMW, "Appends to a value and returns its new length.",
			updating(register.Append, renderInt)), one("incr", 2, register.RMW, "Adds one to an integer.", adding("1")),
		one("incrby", 3, register.RMW, "Adds to an integer.", withInteger(runIncrBy)),
		one("decr", 2, register.RMW, "Subtracts one from an integer.", adding("-1")),
		one("decrby", 3, register.RMW, "Subtracts from an integer.", withInteger(runDecrBy)),
		one("incrbyfloat", 3, register.RMW, "Adds to a floating-point number.", runIncrByFloat),
		one("setrange", 4, register.RMW, "Overwrites a part of a value.", withInteger(runSetRange)),
		one("getrange", 4, register.Read, "Returns a part of a value.", withInteger(runGetRange)),
		one("cas", 4, register.RMW, "Sets a key to a new value if it has the expected one; returns 1 if so, else 0.",
			updating(register.CompareAndSwap, renderInt)),
		one("type", 2, register.Read, "Returns string, or none for an absent key.", reading(renderType)),
		many("mget", 1, register.Read, groupString, "Returns the values of keys, each read for itself.",
			readingEach(renderValues)),
		many("mset", 2, register.Write, groupString, "Sets several keys, each for itself: not atomically.", runMSet),
		many("del", 1, register.RMW, groupGeneric,
			"Deletes keys, each for itself, and returns how many there were.", runDel),
		many("unlink", 1, register.RMW, groupGeneric, "As DEL.", runDel),
		many("exists", 1, register.Read, groupGeneric, "Returns how many of the keys are present.",
			readingEach(renderPresent)),

		plain("multi", 1, false, groupTransactions,
			"Holds the commands that follow, on one key, until EXEC executes them as one.", runMulti),
		plain("exec", 1, false, groupTransactions, "Executes what MULTI held, and returns the replies.", runExec),
		plain("discard", 1, false, groupTransactions, "Forgets what MULTI held, and WATCH.", runDiscard),
		{
			name: "watch", arity: -2, firstKey: 1, lastKey: -1, keyStep: 1, group: groupTransactions, run: runWatch,
			summary: "Has EXEC execute nothing if the key has another value by then.",
		},
		plain("unwatch", 1, false, groupTransactions, "Forgets WATCH.", runUnwatch),

		plain("auth", -2, true, groupConnection, "Authenticates the connection.", runAuth),
		plain("hello", -1, true, groupConnection, "Chooses the protocol's version, 2 or 3.", runHello),
		plain("ping", -1, false, groupConnection, "Returns PONG, or its argument.", runPing),
		plain("echo", 2, false, groupConnection, "Returns its argument.", runEcho),
		plain("select", 2, false, groupConnection, "Chooses database 0, the only one.", runSelect),
		plain("readonly", 1, false, groupConnection,
			"Lets the reads of the connection be slightly stale, and wait for less.", runReadOnly),
		plain("readwrite", 1, false, groupConnection,
			"Makes the reads of the connection linearizable again.", runReadWrite),
		plain("fence", -1, false, groupConnection,
			"Has all that the connection has read be seen by everyone from now on. "+
				"EXPORT returns a token instead, and IMPORT has the connection come after one.", runFence),
		plain("client", -2, false, groupConnection, "SETNAME, GETNAME, ID, SETINFO, INFO.", runClient),
		plain("quit", -1, true, groupConnection, "Closes the connection behind the replies.", runQuit),
		plain("reset", 1, true, groupConnection, "Forgets what the connection has chosen.", runReset),
		plain("command", -1, false, groupServer, "COUNT, DOCS, INFO: describes the commands.", runCommand),
		plain("info", -1, false, groupServer, "Describes the server.", runInfo),
		plain("config", -2, false, groupServer, "GET: returns parameters that clients ask for.", runConfig),
	}
}

// Commands lists the names of the commands that make an operation of this kind of each of their keys, sorted.
func Commands(kind register.Kind) (names []string) {
	for _, c := range table() {
		if c.kind == kind {
			names = append(names, strings.ToUpper(c.name))
		}
	}
	slices.Sort(names)
	return names
}

// refusals say why Redis commands that people try are not served.
var refusals = []struct {
	reason string
	names  []string
}{
	{"this store can't enumerate its keys, every key is a register of its own", []string{
		"keys", "scan", "dbsize", "randomkey", "flushall", "flushdb", "sort", "sort_ro", "swapdb",
	}},
	{"this store has no transactions over several keys, every key is linearizable for itself", []string{
		"msetnx", "rename", "renamenx", "copy", "lcs", "bitop",
	}},
	{"this store runs no scripts; CAS, INCR, APPEND and SET with NX, XX or GET are atomic on one key", []string{
		"eval", "evalsha", "eval_ro", "evalsha_ro", "script", "function", "fcall", "fcall_ro",
	}},
	{"this store has no expiry yet", []string{
		"expire", "pexpire", "expireat", "pexpireat", "ttl", "pttl", "expiretime", "pexpiretime", "persist", "setex",
		"psetex", "getex", "touch",
	}},
	{"this store has no publish and subscribe", []string{
		"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe", "publish", "spublish",
		"pubsub", "monitor",
	}},
	{"this store replicates by quorums and every site takes reads and writes; there is nothing to choose", []string{
		"wait", "waitaof", "replicaof", "slaveof", "psync", "sync", "cluster", "asking", "failover", "role",
	}},
	{"of the string commands only those that COMMAND lists are served", []string{
		"setbit", "getbit", "bitcount", "bitpos", "bitfield", "bitfield_ro", "pfadd", "pfcount", "pfmerge", "substr",
	}},
}

// otherTypes begins the names of the commands of other types than strings.
var otherTypes = []string{"h", "l", "r", "s", "z", "x", "b", "geo", "json."}

// refusedReason says why a Redis command that people try is not served; empty: it is none of Redis. It is looked up on
// the error path only.
func refusedReason(name string) string {
	for _, r := range refusals {
		if slices.Contains(r.names, name) {
			return r.reason
		}
	}
	if slices.ContainsFunc(otherTypes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return "this store has strings only, no hashes, lists, sets, sorted sets or streams; COMMAND lists what " +
			"is served"
	}
	return ""
}

// newCall makes a call of a command that was read, with its reply or with its operations.
func (c *connection) newCall(in resp.Command) *call {
	name, known := c.lookup(in)
	k := c.calls.newCall()
	k.command, k.version = known, c.client.version
	switch {
	case known == nil:
		c.refuseUnknown(k, name, in)
	case !c.client.authenticated && !known.noAuth && c.server.options.Password != "":
		k.fail("NOAUTH Authentication required.")
	case in.Excess != nil:
		k.fail(c.excessText(known, in.Excess))
	case known.arity > 0 && len(in.Args) != known.arity || len(in.Args) < -known.arity:
		k.wrongArity(known.name)
	default:
		if message := c.checkArguments(known, in.Args); message != "" {
			k.fail(message)
		} else if !c.holds(k, known, in.Args) {
			known.run(c, k, in.Args)
			return k
		}
	}
	if t := &c.client.transaction; t.begun && k.refused {
		t.broken = true
	}
	return k
}

// lookup finds the command by its name in any case.
func (c *connection) lookup(in resp.Command) (name []byte, known *command) {
	if len(in.Args) == 0 {
		return nil, nil
	}
	var lower [32]byte
	name = in.Args[0]
	if len(name) > len(lower) {
		return name, nil
	}
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	return name, c.server.commands[string(lower[:len(name)])]
}

// refuseUnknown refuses a command that is not served.
func (c *connection) refuseUnknown(k *call, name []byte, in resp.Command) {
	lower := strings.ToLower(string(name[:min(len(name), 128)]))
	if !c.client.authenticated && c.server.options.Password != "" {
		k.fail("NOAUTH Authentication required.")
		return
	}
	if reason := refusedReason(lower); reason != "" {
		k.fail(fmt.Sprintf("ERR unknown command '%s': %s", lower, reason))
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%s', with args beginning with: ", name[:min(len(name), 128)])
	for _, arg := range in.Args[min(1, len(in.Args)):] {
		if text.Len() > 128 {
			break
		}
		fmt.Fprintf(&text, "'%s' ", arg[:min(len(arg), 128)])
	}
	k.fail(text.String())
}

// excessText names what was too large, and the limit that holds for it: the parser's own bound is the
// largest of them.
func (c *connection) excessText(known *command, e *resp.Excess) string {
	what, limit := fmt.Sprintf("argument %d of '%s'", e.Argument, known.name), e.Limit
	switch {
	case e.Argument < 0:
		what = "command '" + known.name + "'"
	case known.isKey(e.Argument):
		what, limit = "key", c.server.options.Limits.KeyBytes
	case known.firstKey > 0:
		what, limit = "value", c.server.options.Limits.ValueBytes
	}
	return fmt.Sprintf("ERR %s of %d bytes is too large: the limit is %d bytes", what, e.Bytes, limit)
}

// isKey reports whether the argument at a position is a key.
func (c *command) isKey(position int) bool {
	return c.firstKey > 0 && position >= c.firstKey && (c.lastKey < 0 || position <= c.lastKey) &&
		(position-c.firstKey)%c.keyStep == 0
}

// checkArguments holds keys and values to their limits and returns the error, or nothing.
func (c *connection) checkArguments(known *command, args [][]byte) string {
	if known.firstKey == 0 {
		return ""
	}
	if keys := (len(args) - known.firstKey) / known.keyStep; known.lastKey < 0 && keys > c.server.options.MaxInFlight {
		return fmt.Sprintf("ERR '%s' with %d keys is too large: the limit is %d keys a command",
			known.name, keys, c.server.options.MaxInFlight)
	}
	limits := &c.server.options.Limits
	for i, arg := range args[1:] {
		if known.isKey(i + 1) {
			if len(arg) == 0 || len(arg) > limits.KeyBytes {
				return "ERR " + limits.CheckKey(string(arg)).Error()
			}
		} else if err := limits.CheckValue(len(arg)); err != nil {
			return "ERR " + err.Error()
		}
	}
	return ""
}
