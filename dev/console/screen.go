package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen shows text that scrolls and, on a terminal, a table above it that stays. The scrolling part is an
// ordinary terminal, with its own line editing, so that a prompt needs no more than reading lines.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	size   func() (width, height int) // nil if out is no terminal
	table  int                        // lines of the table; 0 before the first
	width  int
	height int
}

// Escape sequences that every terminal of the last decades understands.
const (
	saveCursor    = "\x1b7"
	restoreCursor = "\x1b8"
	clearScreen   = "\x1b[2J"
	clearLine     = "\x1b[2K"
	wholeRegion   = "\x1b[r"
)

// minScroll is how many lines must be left below the table.
const minScroll = 5

// newScreen writes to a file; the table stays only if it is a terminal.
func newScreen(out *os.File) *screen {
	s := &screen{out: out}
	if fd := int(out.Fd()); term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		s.size = func() (int, int) {
			width, height, err := term.GetSize(fd)
			if err != nil {
				return 0, 0
			}
			return width, height
		}
	}
	return s
}

// live reports whether a table can stay.
func (s *screen) live() bool { return s.size != nil }

// print adds text to the scrolling part.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, text) // a terminal that is gone has nobody to tell
}

// show replaces the table. Without a terminal, or on one that is too small, it does nothing.
func (s *screen) show(lines []string) {
	if !s.live() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	width, height := s.size()
	if len(lines)+1+minScroll > height {
		s.leave()
		return
	}
	var b strings.Builder
	region := fmt.Sprintf("\x1b[%d;%dr", len(lines)+2, height)
	if s.table == 0 || s.width != width || s.height != height {
		fmt.Fprintf(&b, "%s%s\x1b[%d;1H", clearScreen, region, height)
		s.table = len(lines)
	}
	b.WriteString(saveCursor)
	if s.table != len(lines) { // what was typed stays; lines that the table leaves don't
		b.WriteString(region)
		for row := len(lines) + 2; row <= s.table+1; row++ {
			fmt.Fprintf(&b, "\x1b[%d;1H%s", row, clearLine)
		}
	}
	s.table, s.width, s.height = len(lines), width, height
	for i, line := range append(lines, strings.Repeat("-", width)) {
		fmt.Fprintf(&b, "\x1b[%d;1H%s%s", i+1, clearLine, cut(line, width))
	}
	b.WriteString(restoreCursor)
	_, _ = io.WriteString(s.out, b.String())
}

// close gives the whole terminal back to scrolling.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
}

func (s *screen) leave() {
	if s.table == 0 {
		return
	}
	_, _ = fmt.Fprintf(s.out, "%s%s%s", saveCursor, wholeRegion, restoreCursor)
	s.table = 0
}

// cut shortens a line of ASCII to a width.
func cut(line string, width int) string {
	if len(line) > width {
		return line[:width]
	}
	return line
}
