package listenertest

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/replica/proof"
)

// Bound is on everything that a test waits for.
const Bound = 20 * time.Second

// WaitUntil polls a condition.
func WaitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(Bound); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// Metric returns the value of the counter or gauge that has the name and exactly the labels; 0 if there is none yet.
func Metric(t *testing.T, registry prometheus.Gatherer, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			of := map[string]string{}
			for _, pair := range m.Label {
				of[pair.GetName()] = pair.GetValue()
			}
			if family.GetName() == name && maps.Equal(of, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// Keys are the keys of the cluster in all tests of a process.
var Keys = func() *proof.Keys {
	k, err := proof.Parse(proof.Draw(), "cluster")
	if err != nil {
		panic(err)
	}
	return k
}()
