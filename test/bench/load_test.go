package main

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	l := newLoad(1, 1, nil)
	for i := range 100 { // every 10 ms until 1 s, but none from 300 to 500 ms; each took as many ms as its number says
		if i < 30 || i >= 50 {
			l.samples["a"] = append(l.samples["a"], sample{at(10 * i), time.Duration(i) * time.Millisecond, false})
		}
	}
	l.samples["a"] = append(l.samples["a"], sample{at(400), time.Millisecond, true})
	l.samples["b"] = []sample{{at(350), time.Millisecond, false}}
	for name, test := range map[string]struct {
		site         string
		from, to     int
		done, failed int
		p99, gap     time.Duration
	}{
		"all of a":      {"a", 0, 1000, 80, 1, 99 * time.Millisecond, 210 * time.Millisecond},
		"a silent time": {"a", 301, 489, 0, 1, 0, 188 * time.Millisecond},
		"its end":       {"a", 200, 400, 10, 1, 29 * time.Millisecond, 110 * time.Millisecond},
		"all sites":     {"", 0, 1000, 81, 1, 99 * time.Millisecond, 650 * time.Millisecond},
		"nobody":        {"c", 0, 1000, 0, 0, 0, time.Second},
	} {
		w := l.window(test.site, at(test.from), at(test.to))
		if w.done != test.done || w.failed != test.failed || w.p99 != test.p99 || w.gap != test.gap {
			t.Errorf("%s: %+v, want %+v", name, w, test)
		}
	}
}
