package redis

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/listener/redis/resp"
)

// The commands in this file concern the connection alone. They take effect when they are parsed; their
// replies stand in line with the others.

const wrongPassword = "WRONGPASS invalid username-password pair or user is disabled."

func runPing(c *connection, k *call, args [][]byte) {
	switch len(args) {
	case 1:
		k.reply(resp.AppendSimple(nil, "PONG"))
	case 2:
		k.reply(resp.AppendBulk(nil, args[1]))
	default:
		k.wrongArity("ping")
	}
}

func runEcho(c *connection, k *call, args [][]byte) {
	k.reply(resp.AppendBulk(nil, args[1]))
}

func runSelect(c *connection, k *call, args [][]byte) {
	n, ok := integer(args[1])
	switch {
	case !ok:
		k.fail("ERR invalid DB index")
	case n != 0:
		k.fail("ERR DB index is out of range: this store has database 0 only")
	default:
		k.ok()
	}
}

// runReadOnly has the connection's reads be those that may be stale, as clients of Redis Cluster ask for at replicas.
// Writes are served all the same.
func runReadOnly(c *connection, k *call, _ [][]byte) {
	c.client.readOnly = true
	k.ok()
}

func runReadWrite(c *connection, k *call, _ [][]byte) {
	c.client.readOnly = false
	k.ok()
}

func runQuit(c *connection, k *call, _ [][]byte) {
	k.hangUp = true
	k.ok()
}

// runReset leaves what the connection has read: whoever uses it next comes after that, which harms no one, while the
// user before may be the same one.
func runReset(c *connection, k *call, _ [][]byte) {
	c.resetClient()
	k.version = c.client.version
	k.reply(resp.AppendSimple(nil, "RESET"))
}

func runAuth(c *connection, k *call, args [][]byte) {
	user := []byte("default")
	if len(args) == 3 {
		user = args[1]
	}
	switch {
	case len(args) > 3:
		k.fail("ERR syntax error")
	case c.server.options.Password == "":
		k.fail("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	case !c.login(user, args[len(args)-1]):
		k.fail(wrongPassword)
	default:
		k.ok()
	}
}

// login checks the password in a time that does not depend on where it differs. There is one user, as in
// a Redis without access control lists.
func (c *connection) login(user, password []byte) bool {
	given, want := sha256.Sum256(password), sha256.Sum256([]byte(c.server.options.Password))
	if string(user) != "default" ||
		c.server.options.Password != "" && subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return false
	}
	c.authenticate(true)
	return true
}

func runHello(c *connection, k *call, args [][]byte) {
	version := c.client.version
	if len(args) > 1 {
		n, ok := integer(args[1])
		if !ok {
			k.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			k.fail("NOPROTO unsupported protocol version")
			return
		}
		version = resp.Version(n)
	}
	var name []byte
	for rest := args[min(2, len(args)):]; len(rest) > 0; {
		option := strings.ToUpper(string(rest[0]))
		switch {
		case option == "AUTH" && len(rest) > 2:
			if !c.login(rest[1], rest[2]) {
				k.fail(wrongPassword)
				return
			}
			rest = rest[3:]
		case option == "SETNAME" && len(rest) > 1:
			if !plainText(rest[1]) {
				k.fail(badName)
				return
			}
			name, rest = rest[1], rest[2:]
		default:
			k.fail("ERR Syntax error in HELLO option '" + option + "'")
			return
		}
	}
	if !c.client.authenticated {
		k.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> " +
			"AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version " +
			"at the same time")
		return
	}
	if name != nil {
		c.client.name = string(name)
	}
	c.client.version, k.version = version, version
	b := resp.AppendMap(nil, version, 7)
	b = resp.AppendBulk(resp.AppendBulk(b, "server"), "georegister")
	b = resp.AppendBulk(resp.AppendBulk(b, "version"), redisVersion)
	b = resp.AppendInt(resp.AppendBulk(b, "proto"), int64(version))
	b = resp.AppendInt(resp.AppendBulk(b, "id"), c.id)
	b = resp.AppendBulk(resp.AppendBulk(b, "mode"), "standalone")
	b = resp.AppendBulk(resp.AppendBulk(b, "role"), "master")
	b = resp.AppendArray(resp.AppendBulk(b, "modules"), 0)
	k.reply(b)
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters, and have at most 1024 bytes."

// plainText reports whether text can stand in a line of CLIENT INFO.
func plainText(text []byte) bool {
	if len(text) > 1024 {
		return false
	}
	for _, b := range text {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}

func runClient(c *connection, k *call, args [][]byte) {
	sub := strings.ToLower(string(args[1]))
	arity := map[string]int{"setname": 3, "getname": 2, "id": 2, "setinfo": 4, "info": 2}[sub]
	switch {
	case arity == 0:
		k.fail(fmt.Sprintf("ERR unknown subcommand '%s'. Known are SETNAME, GETNAME, ID, SETINFO and INFO.", args[1]))
	case len(args) != arity:
		k.wrongArity("client|" + sub)
	case sub == "setname" && !plainText(args[2]):
		k.fail(badName)
	case sub == "setname":
		c.client.name = string(args[2])
		k.ok()
	case sub == "getname" && c.client.name == "":
		k.reply(resp.AppendNull(nil, k.version))
	case sub == "getname":
		k.reply(resp.AppendBulk(nil, c.client.name))
	case sub == "id":
		k.reply(resp.AppendInt(nil, c.id))
	case sub == "setinfo":
		c.setInfo(k, args[2], args[3])
	default:
		k.reply(resp.AppendText(nil, k.version, fmt.Sprintf(
			"id=%d addr=%s laddr=%s name=%s age=%d db=0 user=default resp=%d lib-name=%s lib-ver=%s\n",
			c.id, c.conn.RemoteAddr(), c.conn.LocalAddr(), c.client.name, int(time.Since(c.since).Seconds()),
			c.client.version, c.client.library, c.client.libraryVer)))
	}
}

func (c *connection) setInfo(k *call, attribute, value []byte) {
	name := strings.ToLower(string(attribute))
	field := map[string]*string{"lib-name": &c.client.library, "lib-ver": &c.client.libraryVer}[name]
	switch {
	case field == nil:
		k.fail(fmt.Sprintf("ERR Unrecognized option '%s'", attribute))
	case !plainText(value):
		k.fail("ERR " + name + " cannot contain spaces, newlines or special characters, and has at most 1024 bytes.")
	default:
		*field = string(value)
		k.ok()
	}
}
