package console

import (
	"fmt"
	"strings"

	"github.com/georegister/georegister/api/v1alpha1"
)

// notEmulated says what a manifest asks of the network that members on one machine don't do, in lines for a terminal of
// 80 columns; empty: nothing. They hold messages back as they come from a stream, where packets are neither lost nor
// counted.
func notEmulated(spec v1alpha1.GeoRegisterClusterSpec) string {
	var lost, bounded []string
	for i, a := range spec.Sites {
		for _, b := range spec.Sites[i+1:] {
			there, back := spec.Way(a.Name, b.Name), spec.Way(b.Name, a.Name)
			pair := a.Name + "-" + b.Name
			if there.Loss+back.Loss > 0 {
				lost = append(lost, pair)
			}
			if there.Rate+back.Rate > 0 {
				bounded = append(bounded, pair)
			}
		}
	}
	var b strings.Builder
	if len(lost) > 0 {
		fmt.Fprintf(&b, "nothing is lost here, though spec.wan asks for loss:\n  %s\n", strings.Join(lost, ", "))
	}
	if len(bounded) > 0 {
		fmt.Fprintf(&b, "no rate is bounded here, though spec.wan asks for one:\n  %s\n", strings.Join(bounded, ", "))
	}
	if b.Len() > 0 {
		b.WriteString("georegister dev emulates delay and jitter alone; loss and rate take Kubernetes\n" +
			"with Chaos Mesh (spec.wan.provider)\n")
	}
	return b.String()
}
