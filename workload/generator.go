package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/georegister/georegister/replica/register"
)

// members is how many different ones are added, so that lists stay short.
const members = 200

// maxClients bounds client numbers, so that the integers that clients write are apart.
const maxClients = 100_000

// Generator makes the generator of one client. Clients of a run have different numbers, from 0.
func (s Spec) Generator(client int) (*Generator, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if client < 0 || client >= maxClients {
		return nil, fmt.Errorf("workload: client %d is outside 0..%d", client, maxClients-1)
	}
	return &Generator{spec: s, client: client, keys: s.chooser(client), seen: map[string]register.Value{}}, nil
}

// Generator makes the operations of one client. It is not safe for concurrent use.
type Generator struct {
	spec   Spec
	client int
	made   int // how many unique values
	keys   func(*rand.Rand) string
	seen   map[string]register.Value // what the client last saw of each key; only for compare-and-swap
}

// Next is the client's next operation. It draws from rng alone, so that a seed replays. Operation.ID is left to whoever
// submits.
func (g *Generator) Next(rng *rand.Rand) register.Operation {
	mix := g.spec.Mix
	draw := rng.Float64() * (mix.Read + mix.Write + mix.RMW)
	key := g.keys(rng)
	switch {
	case draw < mix.Read:
		return register.Operation{Kind: register.Read, Key: key, Stale: g.spec.Stale}
	case draw < mix.Read+mix.Write || mix.RMW == 0:
		return register.Operation{Kind: register.Write, Key: key, Value: g.value(rng)}
	}
	return register.Operation{Kind: register.RMW, Key: key, Call: g.call(key, rng)}
}

// Observe takes the answer to an operation that Next made: later ones may depend on it.
func (g *Generator) Observe(op register.Operation, result register.Result) {
	if g.spec.RMWs != RMWCAS && g.spec.RMWs != RMWMixed || result.Status != register.OK {
		return
	}
	switch op.Kind {
	case register.Read:
		g.seen[op.Key] = result.Value
	case register.Write:
		g.seen[op.Key] = op.Value
	}
}

// value is a value that no other write of the run has, at least ValueBytes long.
func (g *Generator) value(rng *rand.Rand) register.Value {
	if g.spec.integers() || g.spec.RMWs == RMWMixed && rng.IntN(2) == 0 {
		return g.integer()
	}
	token := g.token()
	if pad := g.spec.ValueBytes - len(token); pad > 0 {
		token += strings.Repeat("x", pad)
	}
	return register.Value(token)
}

// integer leaves room for 1,000 additions before it meets the next one. The same offset for all makes it long.
func (g *Generator) integer() register.Value {
	g.made++
	const step, block = 1_000, 10_000_000_000_000
	offset := int64(math.Pow10(min(g.spec.ValueBytes, integerDigits) - 1))
	return register.Value(strconv.FormatInt(offset+int64(g.client)*block+int64(g.made)*step, 10))
}

// token is a short text that no other client or call makes.
func (g *Generator) token() string {
	g.made++
	return fmt.Sprintf("c%d-%d;", g.client, g.made)
}

// call draws an rmw.
func (g *Generator) call(key string, rng *rand.Rand) register.Call {
	choice := g.spec.RMWs
	if choice == RMWMixed {
		all := []RMWs{
			RMWAdd, RMWAppend, RMWCAS, RMWGetAndSet, register.SetIfAbsent, register.GetAndDelete, register.Delete,
			register.Multi,
		}
		choice = all[rng.IntN(len(all))]
	}
	if choice != register.Multi {
		return g.callOf(choice, key, rng)
	}
	// What two calls find before and after another one tells whether anything came in between.
	get := register.Call{Function: register.Get}
	calls := register.EncodeCalls([]register.Call{get, g.callOf(RMWAppend, key, rng), get})
	return register.Call{
		Function: register.Multi, Args: [][]byte{nil, calls}, MaxValueBytes: register.DefaultLimits().ValueBytes,
	}
}

// callOf draws an rmw of one function.
func (g *Generator) callOf(choice RMWs, key string, rng *rand.Rand) register.Call {
	call := register.Call{MaxValueBytes: register.DefaultLimits().ValueBytes}
	switch choice {
	case RMWIdempotent:
		if register.Hash([]byte(key))%2 == 0 {
			call.Function, call.Args = register.SetNewest, [][]byte{[]byte(strconv.Itoa(g.made + 1)), []byte(g.token())}
		} else {
			call.Function, call.Args = register.AddMember, [][]byte{[]byte(strconv.Itoa(rng.IntN(members)))}
		}
	case RMWAdd:
		call.Function, call.Args = register.Add, [][]byte{[]byte("1")}
	case RMWAppend:
		call.Function, call.Args = register.Append, [][]byte{[]byte(g.token())}
	case RMWCAS:
		call.Function, call.Args = register.CompareAndSwap, [][]byte{g.seen[key], g.value(rng)}
	case RMWGetAndSet:
		call.Function, call.Args = register.GetAndSet, [][]byte{g.value(rng)}
	case register.SetIfAbsent:
		call.Function, call.Args = register.SetIfAbsent, [][]byte{g.value(rng)}
	default:
		call.Function = string(choice)
	}
	return call
}

// chooser draws the keys of a client.
func (s Spec) chooser(client int) func(*rand.Rand) string {
	switch s.Keys {
	case Conflict:
		own := "client-" + strconv.Itoa(client)
		return func(rng *rand.Rand) string {
			if rng.Float64() < s.Conflict {
				return "shared"
			}
			return own
		}
	case Zipf:
		z := newZipf(s.KeyCount, s.Theta)
		return func(rng *rand.Rand) string { return keyName(z.draw(rng) - 1) }
	}
	return func(rng *rand.Rand) string { return keyName(rng.IntN(s.KeyCount)) }
}

func keyName(i int) string { return "key-" + strconv.Itoa(i) }
