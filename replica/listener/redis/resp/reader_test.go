package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

var small = Limits{ArgumentBytes: 8, CommandBytes: 200}

// readAll renders what a reader makes of input: commands, then the error that ends it.
func readAll(r *Reader) (commands []string, err error) {
	for {
		c, err := r.Next()
		if err != nil {
			return commands, err
		}
		text := fmt.Sprintf("%q", c.Args)
		if c.Excess != nil {
			text += fmt.Sprintf(" over: argument %d has %d of %d", c.Excess.Argument, c.Excess.Bytes, c.Excess.Limit)
		}
		commands = append(commands, text)
	}
}

func TestReader(t *testing.T) {
	for _, test := range []struct {
		name, input string
		want        []string
		err         error
	}{
		{"nothing", "", nil, io.EOF},
		{"command", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", []string{`["GET" "k"]`}, io.EOF},
		{"binary", "*2\r\n$3\r\nGET\r\n$4\r\n\r\n\x00\xff\r\n", []string{`["GET" "\r\n\x00\xff"]`}, io.EOF},
		{"empty argument", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", []string{`["ECHO" ""]`}, io.EOF},
		{"empty commands", "*0\r\n*-1\r\n\r\n  \r\nPING\r\n", []string{`["PING"]`}, io.EOF},
		{"two", "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n", []string{`["a"]`, `["b"]`}, io.EOF},
		{"inline", "SET  k 'a\\'b'  \"\\x41\\n\\\"\"\n", []string{`["SET" "k" "a'b" "A\n\""]`}, io.EOF},
		{"inline empty word", "ECHO \"\"\r\n", []string{`["ECHO" ""]`}, io.EOF},
		{"torn inline", "PING", nil, io.ErrUnexpectedEOF},
		{"torn header", "*2\r", nil, io.ErrUnexpectedEOF},
		{"torn bulk", "*1\r\n$5\r\nab", nil, io.ErrUnexpectedEOF},
		{"unbalanced", "SET k 'a\r\n", nil, ProtocolError("unbalanced quotes in request")},
		{"text behind a quote", "SET 'k'v\r\n", nil, ProtocolError("unbalanced quotes in request")},
		{"no bulk", "*1\r\n:1\r\n", nil, ProtocolError("expected '$', got ':'")},
		{"count", "*x\r\n", nil, ProtocolError("invalid multibulk length")},
		{"empty count", "*\r\n", nil, ProtocolError("invalid multibulk length")},
		{"large count", "*1048577\r\n", nil, ProtocolError("invalid multibulk length")},
		{"endless count", "*" + strings.Repeat("1", 19) + "\r\n", nil, ProtocolError("too big mbulk count string")},
		{"negative bulk", "*1\r\n$-1\r\n", nil, ProtocolError("invalid bulk length")},
		{"large bulk", "*1\r\n$536870913\r\n", nil, ProtocolError("invalid bulk length")},
		{"wrong bulk", "*1\r\n$1\r\nabc\r\n", nil, ProtocolError("expected a line end behind a bulk string")},
		{"POST", "PING\r\npost / HTTP/1.1\r\nSET k v\r\n", []string{`["PING"]`}, ForeignError("HTTP")},
		{"POST alone", " POST\r\n", nil, ForeignError("HTTP")},
		{"host", "GET / HTTP/1.1\r\nhOST:a\r\nSET k v\r\n", []string{`["GET" "/" "HTTP/1.1"]`}, ForeignError("HTTP")},
		{"other methods", "OPTIONS * HTTP/1.1\r\n", nil, ForeignError("HTTP")},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", nil, ForeignError("HTTP")},
		{"TLS", "\x16\x03\x01\x00\x20\x01\r\nSET k v\r\n", nil, ForeignError("no text")},
		{"like them", "POSTED\r\nSET host: post\r\nhosts:\r\n*1\r\n$4\r\nPOST\r\n",
			[]string{`["POSTED"]`, `["SET" "host:" "post"]`, `["hosts:"]`, `["POST"]`}, io.EOF},
		{"long inline", strings.Repeat("a", maxInline+1), nil, ProtocolError("too big inline request")},
		{"argument over the limit", "*3\r\n$3\r\nSET\r\n$9\r\n123456789\r\n$1\r\nv\r\n*1\r\n$4\r\nPING\r\n",
			[]string{`["SET"] over: argument 1 has 9 of 8`, `["PING"]`}, io.EOF},
		{"command over the limit", "*9\r\n" + strings.Repeat("$1\r\na\r\n", 9) + "PING\r\n",
			[]string{`["a" "a" "a" "a" "a" "a" "a" "a"] over: argument -1 has 225 of 200`, `["PING"]`}, io.EOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := readAll(NewReader(strings.NewReader(test.input), small))
			if !slices.Equal(got, test.want) || !errors.Is(err, test.err) {
				t.Errorf("read %v, %v\nwant %v, %v", got, err, test.want, test.err)
			}
			again, err := readAll(NewReader(iotest.OneByteReader(strings.NewReader(test.input)), small))
			if !slices.Equal(again, test.want) || !errors.Is(err, test.err) {
				t.Errorf("byte by byte: read %v, %v\nwant %v, %v", again, err, test.want, test.err)
			}
		})
	}
}

// A client that is not authenticated may send what it takes to be, and no more.
func TestStranger(t *testing.T) {
	t.Parallel()
	argument := func(size int) string { return string(AppendBulk(nil, strings.Repeat("a", size))) }
	for _, test := range []struct {
		name, input string
		commands    int
		err         error
	}{
		{"as much as it may", "*10\r\n" + strings.Repeat(argument(16<<10), 10), 1, io.EOF},
		{"too many", "*11\r\n", 0, ProtocolError("unauthenticated multibulk length")},
		{"too many words", strings.Repeat("a ", 11) + "\n", 0, ProtocolError("unauthenticated multibulk length")},
		{"too long", "*1\r\n$16385\r\n", 0, ProtocolError("unauthenticated bulk length")},
	} {
		t.Run(test.name, func(t *testing.T) {
			limits := Limits{ArgumentBytes: 1 << 20, CommandBytes: 1 << 20}
			r := NewReader(strings.NewReader(test.input), limits)
			r.Stranger = true
			if got, err := readAll(r); len(got) != test.commands || !errors.Is(err, test.err) {
				t.Errorf("read %d commands, %v; want %d, %v", len(got), err, test.commands, test.err)
			}
			r = NewReader(strings.NewReader(test.input), limits)
			if _, err := readAll(r); errors.Is(err, test.err) && test.err != io.EOF {
				t.Errorf("who is known may not send it either: %v", err)
			}
		})
	}
}

func TestLargeArgument(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789"), 30000)
	input := append(AppendBulk(AppendBulk(AppendArray(nil, 2), "ECHO"), value), "PING\r\n"...)
	r := NewReader(bytes.NewReader(input), Limits{ArgumentBytes: 1 << 20, CommandBytes: 2 << 20})
	c, err := r.Next()
	if err != nil || !bytes.Equal(c.Args[1], value) {
		t.Fatalf("read %d arguments, %v", len(c.Args), err)
	}
	if c, err = r.Next(); err != nil || string(c.Args[0]) != "PING" {
		t.Fatalf("then read %q, %v", c.Args, err)
	}
	if cap(r.block) > smallBlock || r.held != 0 {
		t.Errorf("the reader keeps %d bytes, and tells of %d", cap(r.block), r.held)
	}
}

// What a reader holds follows what has arrived, whatever is announced, and it tells all of it.
func TestMemoryFollowsWhatArrives(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	argument := string(AppendBulk(nil, strings.Repeat("a", mib)))
	for _, test := range []struct {
		name, input string
		least, most int
	}{
		{"announced arguments", "*1048576\r\n", 0, 0},
		{"announced bytes", "*1\r\n$33554432\r\n", 0, largeBlock},
		{"a half of them", "*1\r\n$33554432\r\n" + strings.Repeat("a", mib+1), mib, 2 * mib},
		{"many large ones", "*61\r\n" + strings.Repeat(argument, 60) + "$1000000\r\na", 60 * mib,
			60*mib + 4*largeBlock},
		{"many small ones", "*1048576\r\n" + strings.Repeat("$1\r\na\r\n", 100000), 2 * mib, 5 * mib},
		{"an endless line", strings.Repeat("a", maxInline), maxInline, 2 * maxInline},
	} {
		t.Run(test.name, func(t *testing.T) {
			held, most := 0, 0
			r := NewReader(strings.NewReader(test.input), Limits{ArgumentBytes: 64 * mib, CommandBytes: 64 * mib})
			r.Grown = func(bytes int) {
				held += bytes
				most = max(most, held)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if c, err := r.Next(); err == nil {
				t.Fatalf("read %d arguments", len(c.Args))
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held < test.least || held > test.most || most > test.most+2*mib {
				t.Errorf("tells of %d bytes, %d at most; want %d to %d", held, most, test.least, test.most)
			}
			if grown := int(after.HeapAlloc) - int(before.HeapAlloc); grown > held+2*mib {
				t.Errorf("takes %d bytes more, and tells of %d", grown, held)
			}
			runtime.KeepAlive(r)
		})
	}
}

func TestErrorsStayOnOneLine(t *testing.T) {
	if got := string(AppendError(nil, "ERR a\r\n+OK")); got != "-ERR a  +OK\r\n" {
		t.Errorf("appended %q", got)
	}
}

// FuzzReader checks that no input breaks the reader or makes it hold more than its limits, that how the
// input is cut into packets changes nothing, and that what was read reads the same when it is written again.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "*3\r\n$3\r\nSET\r\n$9\r\n123456789\r\n$1\r\nv\r\nPING\r\n",
		"SET k \"a\\x41\" 'b'\n", "*-1\r\n*1\r\n$-1\r\n", "*1\r\n:5\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		want, wantErr := readAll(NewReader(bytes.NewReader(input), small))
		if wantErr == nil {
			t.Fatal("the input never ends")
		}
		got, err := readAll(NewReader(iotest.OneByteReader(bytes.NewReader(input)), small))
		if !slices.Equal(got, want) || err.Error() != wantErr.Error() {
			t.Fatalf("byte by byte: %v, %v\nat once: %v, %v", got, err, want, wantErr)
		}
		r := NewReader(bytes.NewReader(input), small)
		for c, err := r.Next(); err == nil; c, err = r.Next() {
			if len(c.Args) == 0 && c.Excess == nil {
				t.Fatal("an empty command")
			}
			if c.Excess != nil {
				continue
			}
			again := AppendArray(nil, len(c.Args))
			for _, arg := range c.Args {
				again = AppendBulk(again, arg)
			}
			// Inline words are not held to the argument limit, their line is short enough.
			d, err := NewReader(bytes.NewReader(again), Limits{ArgumentBytes: maxInline, CommandBytes: 1 << 30}).Next()
			if err != nil || !slices.EqualFunc(c.Args, d.Args, bytes.Equal) {
				t.Fatalf("%q was written and read as %q, %v", c.Args, d.Args, err)
			}
		}
	})
}
