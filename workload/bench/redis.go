package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// redisDialer speaks the Redis protocol; several operations are a pipeline.
type redisDialer struct {
	// replicas are how many of Redis' replicas have to have what a pipeline changed before it counts as answered; a
	// store that replicates by itself has none.
	replicas int
}

type redisConn struct {
	redisDialer
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer

	deadline time.Time // of conn; setting it again for each operation would cost
}

func (d redisDialer) Dial(ctx context.Context, address string) (Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &redisConn{redisDialer: d, conn: conn, in: bufio.NewReader(conn), out: bufio.NewWriter(conn)}, nil
}

func (c *redisConn) Do(ctx context.Context, ops []register.Operation) error {
	if deadline, _ := ctx.Deadline(); deadline != c.deadline { // the zero time is none
		if err := c.conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("set the deadline: %w", err)
		}
		c.deadline = deadline
	}
	changes := false
	for _, op := range ops {
		switch op.Kind {
		case register.Read:
			c.command("GET", op.Key)
		case register.Write:
			c.command("SET", op.Key, string(op.Value))
		case register.RMW:
			c.command("INCRBY", op.Key, string(op.Call.Args[0]))
		}
		changes = changes || op.Kind != register.Read
	}
	wait := changes && c.replicas > 0
	if wait {
		c.command("WAIT", strconv.Itoa(c.replicas), "0")
	}
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	for range ops {
		if _, err := c.reply(); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
	if !wait {
		return nil
	}
	if n, err := c.reply(); err != nil || n < c.replicas {
		return errors.Join(fmt.Errorf("%d of %d replicas have it", n, c.replicas), err)
	}
	return nil
}

// command buffers one command; an error of the connection shows at the flush.
func (c *redisConn) command(words ...string) {
	_, _ = c.out.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, word := range words {
		_, _ = c.out.WriteString("$" + strconv.Itoa(len(word)) + "\r\n")
		_, _ = c.out.WriteString(word)
		_, _ = c.out.WriteString("\r\n")
	}
}

// reply reads an answer of the kinds that these commands have in RESP2, and returns the number if it is one.
func (c *redisConn) reply() (number int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 3 {
		return 0, fmt.Errorf("the store answered %q", line)
	}
	text := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return 0, nil
	case '-':
		return 0, errors.New(string(text))
	case ':', '$':
		if number, err = strconv.Atoi(string(text)); err == nil {
			if line[0] == '$' && number >= 0 { // else it is absent
				_, err = io.CopyN(io.Discard, c.in, int64(number)+2)
			}
			return number, err
		}
	}
	return 0, fmt.Errorf("the store answered %q", line)
}

func (c *redisConn) Close() error { return c.conn.Close() }
