package resp

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// inline reads a command as a person types it: words, perhaps quoted, up to the end of the line.
func (r *Reader) inline() error {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		before := cap(line)
		line = append(line, part...)
		r.grow(cap(line) - before)
		if len(line) > maxInline {
			return ProtocolError("too big inline request")
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if protocol := foreign(line); protocol != "" {
		return ForeignError(protocol)
	}
	r.room(min(len(line), largeBlock)) // of which the words take no more
	defer r.grow(-cap(line))           // the words are copies
	for {
		line = bytes.TrimLeft(line, spaces)
		if len(line) == 0 {
			return nil
		}
		start := len(r.block)
		rest, ok := r.word(line)
		if !ok {
			return ProtocolError("unbalanced quotes in request")
		}
		r.add(start)
		line = rest
		if r.Stranger && len(r.args) > strangerArguments {
			return ProtocolError("unauthenticated multibulk length")
		}
	}
}

// foreign names the protocol that a line begins which no client of ours sends, or nothing. A browser can be had to send
// any lines that someone likes as the body of a request, but not without these before them: each request of HTTP has a
// header Host, and that of a page on another site is a GET, HEAD or POST, or an OPTIONS first. GET is a command here
// too, so that only its Host tells.
func foreign(line []byte) string {
	line = bytes.TrimLeft(line, spaces)
	first := line
	if end := bytes.IndexAny(line, spaces); end >= 0 {
		first = line[:end]
	}
	switch strings.ToUpper(string(first[:min(len(first), len("OPTIONS")+1)])) {
	case "POST", "PUT", "HEAD", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PRI": // no commands
		return "HTTP"
	}
	const host = "host:"
	if len(line) >= len(host) && strings.EqualFold(string(line[:len(host)]), host) {
		return "HTTP"
	}
	// The name of the server in a greeting of TLS is any text that someone likes, too.
	if len(line) > 0 && line[0] < ' ' {
		return "no text"
	}
	return ""
}

// spaces are what separates words.
const spaces = " \t\r\n\v\f\x00"

// word unquotes the first word of line into the block. As in Redis, a closing quote ends the word and
// must be followed by a space.
func (r *Reader) word(line []byte) (rest []byte, ok bool) {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == 0 && isSpace(c):
			return line[i:], true
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0:
			r.block = append(r.block, c)
		case c == quote:
			rest = line[i+1:]
			return rest, len(rest) == 0 || isSpace(rest[0])
		case c == '\\' && quote == '"' && i+1 < len(line):
			b, n := unescape(line[i+1:])
			r.block = append(r.block, b)
			i += n
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			r.block = append(r.block, '\'')
		default:
			r.block = append(r.block, c)
		}
	}
	return nil, quote == 0
}

// unescape is the byte that stands behind a backslash in double quotes, and in how many bytes: xHH, or one.
func unescape(p []byte) (b byte, n int) {
	if p[0] == 'x' && len(p) > 2 {
		if b, err := strconv.ParseUint(string(p[1:3]), 16, 8); err == nil {
			return byte(b), 3
		}
	}
	if known := strings.IndexByte("nrtba", p[0]); known >= 0 {
		return "\n\r\t\b\a"[known], 1
	}
	return p[0], 1
}

func isSpace(c byte) bool { return strings.IndexByte(spaces, c) >= 0 }
