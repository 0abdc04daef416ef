package resp

import (
	"strconv"
	"strings"
)

// Version is a version of the protocol, 2 or 3; a connection chooses it with HELLO.
type Version uint8

// AppendSimple appends a status such as OK.
func AppendSimple(b []byte, s string) []byte { return line(b, '+', s) }

// AppendError appends an error. By convention its first word is a code in capitals.
func AppendError(b []byte, s string) []byte { return line(b, '-', s) }

// line appends a one-line reply; a line end inside of it would end it early, so it becomes a space.
func line(b []byte, kind byte, s string) []byte {
	if strings.ContainsAny(s, "\r\n") {
		s = strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
	}
	return append(append(append(b, kind), s...), '\r', '\n')
}

// AppendInt appends an integer.
func AppendInt(b []byte, n int64) []byte { return header(b, ':', n) }

func header(b []byte, kind byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, kind), n, 10), '\r', '\n')
}

// AppendBulk appends a string of any bytes.
func AppendBulk[T ~string | ~[]byte](b []byte, s T) []byte {
	b = header(b, '$', int64(len(s)))
	return append(append(b, s...), '\r', '\n')
}

// AppendNull appends the absent value.
func AppendNull(b []byte, v Version) []byte { return appendNull(b, v, "$-1\r\n") }

func appendNull(b []byte, v Version, former string) []byte {
	if v == 3 {
		former = "_\r\n"
	}
	return append(b, former...)
}

// AppendNullArray appends the absent array.
func AppendNullArray(b []byte, v Version) []byte { return appendNull(b, v, "*-1\r\n") }

// AppendArray appends the head of an array; its n elements follow.
func AppendArray(b []byte, n int) []byte { return header(b, '*', int64(n)) }

// AppendMap appends the head of a map; n keys, each with its value, follow. RESP2 has a flat array instead.
func AppendMap(b []byte, v Version, n int) []byte {
	if v == 3 {
		return header(b, '%', int64(n))
	}
	return header(b, '*', 2*int64(n))
}

// AppendSet appends the head of a set; its n elements follow. RESP2 has an array instead.
func AppendSet(b []byte, v Version, n int) []byte {
	if v == 3 {
		return header(b, '~', int64(n))
	}
	return header(b, '*', int64(n))
}

// AppendText appends text for people; RESP3 marks it as such.
func AppendText(b []byte, v Version, s string) []byte {
	if v == 3 {
		b = header(b, '=', int64(len(s)+4))
		return append(append(append(b, "txt:"...), s...), '\r', '\n')
	}
	return AppendBulk(b, s)
}
