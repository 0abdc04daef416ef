package resp

import (
	"bufio"
	"bytes"
	"errors"
)

// inline reads a command as a person types it: words, perhaps quoted, up to the end of the line.
func (r *Reader) inline() error {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
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
	for {
		line = bytes.TrimLeft(line, " \t\r\n\v\f\x00")
		if len(line) == 0 {
			return nil
		}
		rest, ok := r.word(line)
		if !ok {
			return ProtocolError("unbalanced quotes in request")
		}
		r.ends = append(r.ends, len(r.arena))
		line = rest
	}
}

// word unquotes the first word of line into the arena. As in Redis, a closing quote ends the word and
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
			r.arena = append(r.arena, c)
		case c == quote:
			rest = line[i+1:]
			return rest, len(rest) == 0 || isSpace(rest[0])
		case c == '\\' && quote == '"' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			r.arena = append(r.arena, hex(line[i+2])<<4|hex(line[i+3]))
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(line):
			i++
			r.arena = append(r.arena, unescape(line[i]))
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			r.arena = append(r.arena, '\'')
		default:
			r.arena = append(r.arena, c)
		}
	}
	return nil, quote == 0
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool { return bytes.IndexByte([]byte(" \t\r\n\v\f\x00"), c) >= 0 }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func hex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
