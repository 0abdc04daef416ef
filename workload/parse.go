package workload

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mixes are the named mixes: YCSB's core workloads A and B, and those of the Gryff paper (sections 6.3, 6.4
// and 6.6), in percent.
func mixes() map[string]Mix {
	return map[string]Mix{
		"ycsb-a":        {Read: 50, Write: 50},
		"ycsb-b":        {Read: 95, Write: 5},
		"gryff-a":       {Read: 49.5, Write: 49.5, RMW: 1},
		"gryff-b":       {Read: 94.5, Write: 4.5, RMW: 1},
		"tail-at-scale": {Read: 99, Write: 0.9, RMW: 0.1},
	}
}

// MixNames lists the named mixes, sorted.
func MixNames() []string { return slices.Sorted(maps.Keys(mixes())) }

// ParseMix understands the name of a mix, or weights as READ:WRITE:RMW, such as 94.5:4.5:1.
func ParseMix(text string) (Mix, error) {
	if mix, ok := mixes()[strings.ToLower(text)]; ok {
		return mix, nil
	}
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return Mix{}, fmt.Errorf("unknown workload %q; give READ:WRITE:RMW weights such as 94.5:4.5:1, or one of %s",
			text, strings.Join(MixNames(), ", "))
	}
	var weights [3]float64
	for i, name := range []string{"read", "write", "rmw"} {
		weight, err := strconv.ParseFloat(parts[i], 64)
		if err != nil {
			return Mix{}, fmt.Errorf("workload %q: the weight of %ss, %q, is not a number", text, name, parts[i])
		}
		weights[i] = weight
	}
	mix := Mix{Read: weights[0], Write: weights[1], RMW: weights[2]}
	if err := mix.Validate(); err != nil {
		return Mix{}, fmt.Errorf("workload %q: %w", text, err)
	}
	return mix, nil
}

// Validate reports weights that can't be drawn from.
func (m Mix) Validate() error {
	for i, weight := range []float64{m.Read, m.Write, m.RMW} {
		if weight < 0 || math.IsNaN(weight) || math.IsInf(weight, 0) {
			return fmt.Errorf("the weight of %ss is %v; weights are finite and not negative",
				[]string{"read", "write", "rmw"}[i], weight)
		}
	}
	if m.Read+m.Write+m.RMW == 0 {
		return errors.New("all weights are 0; at least one must be more")
	}
	return nil
}

// ParseKeys understands how keys are chosen: "conflict", "zipf" or "uniform".
func ParseKeys(text string) (Keys, error) {
	return parseName("keys", text, []Keys{Conflict, Zipf, Uniform})
}

// ParseRMWs understands which rmws are made: "add", "append", "cas", "get-and-set", "idempotent" or "mixed".
func ParseRMWs(text string) (RMWs, error) {
	return parseName("rmws", text, []RMWs{RMWAdd, RMWAppend, RMWCAS, RMWGetAndSet, RMWIdempotent, RMWMixed})
}

func parseName[T ~string](what, text string, known []T) (T, error) {
	if i := slices.Index(known, T(strings.ToLower(text))); i >= 0 {
		return known[i], nil
	}
	return "", fmt.Errorf("unknown %s %q; give one of %v", what, text, known)
}

// Default is a workload where nothing is said: YCSB-A on private keys with 2% conflicts and values of 16 bytes.
func Default() Spec {
	return Spec{
		Mix: mixes()["ycsb-a"], Keys: Conflict, Conflict: 0.02, KeyCount: 1000, Theta: 0.99,
		ValueBytes: 16, RMWs: RMWAdd,
	}
}

// Validate reports the first thing that is wrong, by the name of its field.
func (s Spec) Validate() error {
	if err := s.Mix.Validate(); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	if _, err := ParseKeys(string(s.Keys)); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	if _, err := ParseRMWs(string(s.RMWs)); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	switch {
	case s.Keys == Conflict && !(s.Conflict >= 0 && s.Conflict <= 1):
		return fmt.Errorf("workload: the conflict rate is %v; it is a probability from 0 to 1", s.Conflict)
	case s.Keys != Conflict && s.KeyCount < 1:
		return fmt.Errorf("workload: the key count is %d; %s keys need at least 1", s.KeyCount, s.Keys)
	case s.Keys == Zipf && !(s.Theta >= 0 && s.Theta <= maxTheta):
		return fmt.Errorf("workload: theta is %v; it is from 0 (uniform) to %v", s.Theta, maxTheta)
	case s.ValueBytes < 0:
		return fmt.Errorf("workload: values of %d bytes can't be; give 0 or more", s.ValueBytes)
	case s.integers() && s.ValueBytes > integerDigits:
		return fmt.Errorf("workload: values of %d bytes can't be added to, as an integer has at most %d digits; "+
			"give smaller values or other rmws than %s", s.ValueBytes, integerDigits, RMWAdd)
	}
	return nil
}

// integers reports whether written values must be integers, since rmws add to them.
func (s Spec) integers() bool { return s.RMWs == RMWAdd && s.Mix.RMW > 0 }

const (
	// maxTheta keeps the weights of the Zipf table apart from zero.
	maxTheta = 10
	// integerDigits leaves room above the offset for the numbers of all clients in an int64.
	integerDigits = 18
)
