package register

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Outcome is what an rmw function makes of a value.
type Outcome struct {
	Next    Value  // the new value; meaningful only if Changed
	Changed bool   // whether the register changes; an unchanged one keeps its value but is still ordered
	Reply   Value  // what the client gets
	Refused string // not empty: the function refuses, for this reason, and nothing changes
}

// Function is a deterministic modification of one value. It must depend on its arguments alone, and
// must not keep or change them: every replica runs it, at its own time.
type Function struct {
	Name    string // lower case, hyphens
	Version int    // from 1; a changed meaning is a new version
	Args    int    // how many arguments it takes
	// Idempotent says that a call may be applied again at any later time, whatever other idempotent calls were applied
	// to the value meanwhile: it then changes nothing, and if it changed the value the first time, it replies as it did
	// then. See TestIdempotentFunctions, which holds the built-in ones to it.
	Idempotent bool
	// Apply makes the new value. It allocates nothing larger than maxBytes; a larger result is refused.
	Apply func(current Value, args [][]byte, maxBytes int) Outcome
}

// ID is the name that calls use: "name.vN".
func (f Function) ID() string { return f.Name + ".v" + strconv.Itoa(f.Version) }

// Registry holds the rmw functions that a cluster knows. All members must know the same ones.
type Registry struct{ functions map[string]Function }

// NewRegistry returns a registry of the built-in functions.
func NewRegistry() *Registry {
	r := &Registry{functions: map[string]Function{}}
	multi := Function{Name: "multi", Version: 1, Args: 2, Apply: r.multi}
	for _, f := range append(slices.Concat(builtins(), idempotents()), multi) {
		r.functions[f.ID()] = f
	}
	return r
}

// Add registers one more function; a name and version can be added once.
func (r *Registry) Add(f Function) error {
	if f.Name == "" || f.Version < 1 || f.Apply == nil {
		return errors.New("an rmw function needs a name, a version from 1 and an Apply")
	}
	if _, ok := r.functions[f.ID()]; ok {
		return fmt.Errorf("rmw function %s is registered already", f.ID())
	}
	r.functions[f.ID()] = f
	return nil
}

// Names lists the functions, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.functions)) }

// Idempotent reports whether a function is registered and may be applied more than once.
func (r *Registry) Idempotent(function string) bool { return r.functions[function].Idempotent }

// IdempotentNames lists the functions that may be applied more than once, sorted.
func (r *Registry) IdempotentNames() []string {
	return slices.DeleteFunc(r.Names(), func(name string) bool { return !r.Idempotent(name) })
}

// Check reports what is wrong with a call, before it is ordered.
func (r *Registry) Check(call Call) error {
	f, ok := r.functions[call.Function]
	if !ok {
		return fmt.Errorf("unknown rmw function %q; known are %v", call.Function, r.Names())
	}
	if len(call.Args) != f.Args {
		return fmt.Errorf("rmw function %s takes %d arguments, not %d", call.Function, f.Args, len(call.Args))
	}
	if call.Function == Multi {
		return r.checkMulti(call.Args)
	}
	return nil
}

// Apply runs a checked call on a value. It fails only for a call that Check refuses, whose outcome is a refusal.
func (r *Registry) Apply(current Value, call Call) (Outcome, error) {
	if err := r.Check(call); err != nil {
		return Outcome{Refused: err.Error()}, err
	}
	return r.apply(current, call), nil
}

// apply runs a call that was checked.
func (r *Registry) apply(current Value, call Call) Outcome {
	out := r.functions[call.Function].Apply(current, call.Args, call.MaxValueBytes)
	if out.Refused == "" && out.Changed && call.MaxValueBytes > 0 && len(out.Next) > call.MaxValueBytes {
		return Outcome{Refused: tooLarge(len(out.Next), call.MaxValueBytes)}
	}
	return out
}

// The built-in functions.
const (
	CompareAndSwap    = "compare-and-swap.v1"       // expected, new -> "1" or "0"
	Add               = "add.v1"                    // decimal int64 -> the sum
	AddFloat          = "add-float.v1"              // decimal -> the sum
	Append            = "append.v1"                 // suffix -> the new length
	Set               = "set.v1"                    // new -> nothing: a write that is ordered, and has an id, as an rmw
	SetIfAbsent       = "set-if-absent.v1"          // new -> "1" or "0"
	SetIfPresent      = "set-if-present.v1"         // new -> "1" or "0"
	GetAndSet         = "get-and-set.v1"            // new -> the old value
	GetAndSetIfAbsent = "get-and-set-if-absent.v1"  // new -> the old value; set only if there was none
	GetAndSetPresent  = "get-and-set-if-present.v1" // new -> the old value; set only if there was one
	GetAndDelete      = "get-and-delete.v1"         // -> the old value
	Delete            = "delete.v1"                 // -> "1" if there was a value, else "0"
	SetRange          = "set-range.v1"              // decimal offset, bytes -> the new length
)

// Refusals that clients match on.
const (
	RefusedNotInteger = "value is not an integer or out of range"
	RefusedOverflow   = "increment or decrement would overflow"
	RefusedNotFloat   = "value is not a valid float"
	RefusedNaN        = "increment would produce NaN or Infinity"
	RefusedOffset     = "offset is out of range"
)

func builtins() []Function {
	return []Function{
		{Name: "compare-and-swap", Version: 1, Args: 2, Apply: func(v Value, a [][]byte, _ int) Outcome {
			return setIf(v.Present() && bytes.Equal(v, a[0]), a[1])
		}},
		{Name: "add", Version: 1, Args: 1, Apply: addInteger},
		{Name: "add-float", Version: 1, Args: 1, Apply: addFloat},
		{Name: "append", Version: 1, Args: 1, Apply: func(v Value, a [][]byte, _ int) Outcome {
			return changed(present(slices.Concat(v, a[0]))) // Concat of nothing is nil
		}},
		{Name: "set", Version: 1, Args: 1, Apply: func(_ Value, a [][]byte, _ int) Outcome {
			return Outcome{Next: present(a[0]), Changed: true}
		}},
		{Name: "set-if-absent", Version: 1, Args: 1, Apply: func(v Value, a [][]byte, _ int) Outcome {
			return setIf(!v.Present(), a[0])
		}},
		{Name: "set-if-present", Version: 1, Args: 1, Apply: func(v Value, a [][]byte, _ int) Outcome {
			return setIf(v.Present(), a[0])
		}},
		{Name: "get-and-set", Version: 1, Args: 1, Apply: func(v Value, a [][]byte, _ int) Outcome {
			return Outcome{Next: present(a[0]), Changed: true, Reply: v}
		}},
		{Name: "get-and-set-if-absent", Version: 1, Args: 1, Apply: func(v Value, a [][]byte, _ int) Outcome {
			return Outcome{Next: present(a[0]), Changed: !v.Present(), Reply: v}
		}},
		{Name: "get-and-set-if-present", Version: 1, Args: 1, Apply: func(v Value, a [][]byte, _ int) Outcome {
			return Outcome{Next: present(a[0]), Changed: v.Present(), Reply: v}
		}},
		{Name: "get-and-delete", Version: 1, Args: 0, Apply: func(v Value, _ [][]byte, _ int) Outcome {
			return Outcome{Changed: v.Present(), Reply: v}
		}},
		{Name: "delete", Version: 1, Args: 0, Apply: func(v Value, _ [][]byte, _ int) Outcome {
			return Outcome{Changed: v.Present(), Reply: flag(v.Present())}
		}},
		{Name: "set-range", Version: 1, Args: 2, Apply: setRange},
	}
}

func tooLarge(size, limit int) string {
	return fmt.Sprintf("value of %d bytes is too large: the limit is %d bytes", size, limit)
}

func present(b []byte) Value {
	if b == nil {
		return Value{}
	}
	return Value(b)
}

func flag(yes bool) Value {
	if yes {
		return Value("1")
	}
	return Value("0")
}

func setIf(yes bool, next []byte) Outcome {
	return Outcome{Next: present(next), Changed: yes, Reply: flag(yes)}
}

// changed replies with the length of the new value, as Redis does for APPEND and SETRANGE.
func changed(next Value) Outcome {
	return Outcome{Next: next, Changed: true, Reply: Value(strconv.Itoa(len(next)))}
}

func addInteger(v Value, a [][]byte, _ int) Outcome {
	delta, err := strconv.ParseInt(string(a[0]), 10, 64)
	if err != nil {
		return Outcome{Refused: RefusedNotInteger}
	}
	var current int64
	if v.Present() {
		if current, err = strconv.ParseInt(string(v), 10, 64); err != nil ||
			strconv.FormatInt(current, 10) != string(v) {
			return Outcome{Refused: RefusedNotInteger}
		}
	}
	if (delta > 0 && current > math.MaxInt64-delta) || (delta < 0 && current < math.MinInt64-delta) {
		return Outcome{Refused: RefusedOverflow}
	}
	sum := Value(strconv.FormatInt(current+delta, 10))
	return Outcome{Next: sum, Changed: true, Reply: sum}
}

func addFloat(v Value, a [][]byte, _ int) Outcome {
	delta, err := strconv.ParseFloat(string(a[0]), 64)
	if err != nil || math.IsNaN(delta) {
		return Outcome{Refused: RefusedNotFloat}
	}
	var current float64
	if v.Present() {
		if current, err = strconv.ParseFloat(string(v), 64); err != nil || math.IsNaN(current) {
			return Outcome{Refused: RefusedNotFloat}
		}
	}
	sum := current + delta
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return Outcome{Refused: RefusedNaN}
	}
	text := Value(strconv.FormatFloat(sum, 'f', -1, 64))
	return Outcome{Next: text, Changed: true, Reply: text}
}

// maxOffset bounds what set-range pads, so that one call can't ask for gigabytes (Redis: 512 MiB).
const maxOffset = 512 << 20

func setRange(v Value, a [][]byte, maxBytes int) Outcome {
	offset, err := strconv.ParseInt(string(a[0]), 10, 64)
	if err != nil || offset < 0 || offset > maxOffset {
		return Outcome{Refused: RefusedOffset}
	}
	if len(a[1]) == 0 {
		return Outcome{Reply: Value(strconv.Itoa(len(v)))}
	}
	if size := int(offset) + len(a[1]); maxBytes > 0 && size > maxBytes {
		return Outcome{Refused: tooLarge(size, maxBytes)}
	}
	next := make(Value, max(len(v), int(offset)+len(a[1])))
	copy(next, v)
	copy(next[offset:], a[1])
	return changed(next)
}
