package netem

import (
	"fmt"
	"strings"
	"testing"
)

// plant adds commands to a tree, written without "qdisc add dev eth0".
func plant(t *testing.T, tree *Tree, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := add(tree, line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

func add(tree *Tree, line string) error {
	c, err := Parse(strings.Fields("qdisc add dev eth0 " + line))
	if err != nil {
		return err
	}
	return tree.Add(c, func() float64 { return 0.5 })
}

// paths writes routes as the delays on each.
func paths(tree *Tree) string {
	var all []string
	for _, r := range tree.Routes() {
		text := r.Class.String()
		for _, l := range r.Path {
			text += " " + l.spec.Delay.String()
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestRoutes(t *testing.T) {
	matrix := []string{
		"root handle 1: prio bands 16", "parent 1:1 handle 2: sfq", "parent 1:2 handle 3: sfq",
		"parent 1:3 handle 4: sfq",
	}
	for i := 4; i <= 15; i++ {
		matrix = append(matrix, fmt.Sprintf("parent 1:%x handle %x: netem delay %dms", i, i+1, i))
	}
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"nothing", nil, ""},
		{"classes without delay", matrix[:4], ""},
		{"three targets", matrix[:7], "1:4 4ms, 1:5 5ms, 1:6 6ms"},
		{"twelve targets", matrix,
			"1:4 4ms, 1:5 5ms, 1:6 6ms, 1:7 7ms, 1:8 8ms, 1:9 9ms, 1:a 10ms, 1:b 11ms, 1:c 12ms, 1:d 13ms, 1:e 14ms, " +
				"1:f 15ms"},
		{"all packets",
			[]string{"root handle 1: netem delay 1ms", "parent 1: handle 2: netem delay 2ms"}, "0: 1ms 2ms"},
		{"all packets, and one target more",
			[]string{
				"root handle 1: netem delay 1ms", "parent 1: handle 2: prio bands 4",
				"parent 2:4 handle 6: netem delay 2ms",
			},
			"2:4 1ms 2ms, 0: 1ms"},
		{"two for one target", append(matrix[:5:5], "parent 5: handle 6: netem delay 7ms"), "1:4 4ms 7ms"},
	} {
		tree := &Tree{}
		plant(t, tree, test.lines...)
		if got := paths(tree); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestRoutesShareWhatIsCommon(t *testing.T) {
	tree := &Tree{}
	plant(t, tree, "root handle 1: netem delay 1ms rate 1mbit", "parent 1: handle 2: prio bands 4",
		"parent 2:4 handle 6: netem delay 2ms")
	routes := tree.Routes()
	if len(routes) != 2 || routes[0].Path[0] != routes[1].Path[0] {
		t.Error("two classes each have a link of their own at the root, so each has its whole rate")
	}
	if again := tree.Routes(); again[0].Path[1] != routes[0].Path[1] {
		t.Error("a link is made anew with each look, and forgets what it holds")
	}
}

func TestTreeRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"root handle 9: sfq":         "there is a prio at that place",
		"parent 1:4 handle 1: sfq":   "handle 1: is taken",
		"parent 7:1 handle 8: sfq":   "parent 7:1 is not there",
		"parent 1: handle 8: sfq":    "can't have that child",
		"parent 2: handle 8: netem":  "can't have that child",
		"parent 5:1 handle 8: netem": "can't have that child",
		"parent 1:4 handle 8: netem": "there is a netem at that place",
		"parent 5: handle 8: netem":  "",
		"parent 1:5 handle 9: netem": "",
		"parent 1:6 handle 9: netem": "Error: Specified class not found.",
	} {
		tree := &Tree{}
		plant(t, tree, "root handle 1: prio bands 5", "parent 1:1 handle 2: sfq",
			"parent 1:4 handle 5: netem delay 1ms")
		err := add(tree, line)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want an error with %q", line, err, want)
		}
	}
}

func TestTreeIsShownAsTCDoes(t *testing.T) {
	tree := &Tree{}
	plant(t, tree, "root handle 1: prio bands 4", "parent 1:1 handle 2: sfq",
		"parent 1:4 handle 5: netem delay 90ms loss 5")
	route := tree.Routes()[0]
	due, ok := route.Admit(0, 100)
	if !ok {
		t.Fatal("the packet is lost")
	}
	route.Leave(due / 1000)
	want := `qdisc prio 1: dev eth0 root bands 4
qdisc sfq 2: dev eth0 parent 1:1
qdisc netem 5: dev eth0 parent 1:4 delay 90ms jitter 0s loss 5% rate 0 bytes/s limit 45000
 passed 1, lost 0, held 0 packets; lag 90µs in the mean, 90µs at most
`
	if got := tree.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
