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
type redisDialer struct{}

type redisConn struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer

	deadline time.Time // of conn; setting it again for each operation would cost
}

func (redisDialer) Dial(ctx context.Context, address string) (Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &redisConn{conn: conn, in: bufio.NewReader(conn), out: bufio.NewWriter(conn)}, nil
}

func (c *redisConn) Do(ctx context.Context, ops []register.Operation) error {
	if deadline, _ := ctx.Deadline(); deadline != c.deadline { // the zero time is none
		if err := c.conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("set the deadline: %w", err)
		}
		c.deadline = deadline
	}
	for _, op := range ops {
		switch op.Kind {
		case register.Read:
			c.command("GET", op.Key)
		case register.Write:
			c.command("SET", op.Key, string(op.Value))
		case register.RMW:
			c.command("INCRBY", op.Key, string(op.Call.Args[0]))
		}
	}
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	for range ops {
		if err := c.reply(); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
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

// reply reads an answer of the kinds that these commands have in RESP2.
func (c *redisConn) reply() error {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if len(line) < 3 {
		return fmt.Errorf("the store answered %q", line)
	}
	text := line[1 : len(line)-2]
	switch line[0] {
	case '+', ':':
		return nil
	case '-':
		return errors.New(string(text))
	case '$':
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return fmt.Errorf("the store answered %q", line)
		}
		if n < 0 {
			return nil // absent
		}
		_, err = io.CopyN(io.Discard, c.in, int64(n)+2)
		return err
	}
	return fmt.Errorf("the store answered %q", line)
}

func (c *redisConn) Close() error { return c.conn.Close() }
