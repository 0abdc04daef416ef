// Package digest fingerprints the state of a protocol, so that a search can tell whether it has been in a state before.
//
// Two states with the same digest behave alike from there on: every field counts, whoever wrote it, but for those that
// say otherwise. Times count by how far they are from now, so a state is the same at any hour; a map counts by what it
// holds, not by its order, and a nil list as an empty one. Bytes that are nil differ from empty ones, as an absent
// value does. What a field refers to is found once, so lists that share an element differ from lists that have equal
// ones.
//
// A field that no later step depends on, such as free memory, carries the tag `digest:"-"`. An element of a list whose
// method Ended reports that it has does not count there, such as an operation that is over and not swept up yet. A
// protocol keeps its state in fields: what hides in a closure is not seen. Functions are taken to be the same, and do
// not count.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/runtime/protoimpl"

	"github.com/georegister/georegister/replica/protocol"
)

// State is the digest of a state.
type State [sha256.Size]byte

// Of is the digest of what a protocol, or any value of Go, holds at a time. It panics, naming the type, for what has no
// state that could be read: a channel, or a map whose keys refer to something.
func Of(state any, now protocol.Instant) State { return New().Of(state, now) }

// Digester makes digests one after the other. What it has learned of types makes the next ones cheaper.
type Digester struct{ walk walk }

// New returns a Digester that has learned nothing yet.
func New() *Digester {
	return &Digester{walk{types: map[reflect.Type]*structure{}, found: map[place]int{}}}
}

// Of is what the function Of is.
func (d *Digester) Of(state any, now protocol.Instant) State {
	return sha256.Sum256(d.text(state, now, false))
}

// Size is how much a state is, in bytes of the text of which Of is the hash, and of what has ended and is still there:
// it grows with what is held.
func (d *Digester) Size(state any, now protocol.Instant) int { return len(d.text(state, now, true)) }

func (d *Digester) text(state any, now protocol.Instant, whole bool) []byte {
	d.walk.now, d.walk.whole = now, whole
	d.walk.text.Reset()
	clear(d.walk.found)
	d.walk.value(reflect.ValueOf(state))
	return d.walk.text.Bytes()
}

// structure is what is to be known of a type.
type structure struct {
	name   string
	fields []int // of a struct: those that count
	ends   bool  // it is a pointer to an ender
}

// ender is an element of lists that does not count there once it has ended.
type ender interface{ Ended() bool }

var (
	enders   = reflect.TypeFor[ender]()
	instants = reflect.TypeFor[protocol.Instant]()
	internal = reflect.TypeFor[protoimpl.MessageState]()
	sizes    = reflect.TypeFor[protoimpl.SizeCache]()
)

// libraries are fields of libraries that no later step depends on, as TYPE.FIELD. The Raft library draws a timeout by a
// seed of the process, but its clock is never moved (replica/protocol/raft has its own).
var libraries = map[string]bool{"raft.raft.randomizedElectionTimeout": true}

// place is what a reference leads to.
type place struct {
	at unsafe.Pointer
	of reflect.Type
}

// walk writes a state as a text without ambiguity: each value by its kind, each list with its length.
type walk struct {
	types map[reflect.Type]*structure
	now   protocol.Instant
	found map[place]int // in the order in which references led there
	whole bool          // what has ended counts too
	text  bytes.Buffer
}

// structure finds out about a type, once.
func (w *walk) structure(t reflect.Type) *structure {
	if s, known := w.types[t]; known {
		return s
	}
	s := &structure{name: t.String(), ends: t.Kind() == reflect.Pointer && t.Implements(enders)}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			field := t.Field(i)
			if field.Tag.Get("digest") != "-" && field.Type != internal && field.Type != sizes &&
				!libraries[s.name+"."+field.Name] {
				s.fields = append(s.fields, i)
			}
		}
	}
	w.types[t] = s
	return s
}

func (w *walk) number(n uint64) {
	w.text.Write(binary.AppendUvarint(w.text.AvailableBuffer(), n))
}

func (w *walk) bool(b bool) {
	if b {
		w.number(1)
	} else {
		w.number(0)
	}
}

func (w *walk) string(s string) {
	w.number(uint64(len(s)))
	w.text.WriteString(s)
}

func (w *walk) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid, reflect.Func:
		w.number(0)
	case reflect.Bool:
		w.bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := v.Int()
		if v.Type() == instants && n != 0 { // zero stands for no time
			w.number(1)
			n -= int64(w.now)
		}
		w.number(uint64(n))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		w.number(v.Uint())
	case reflect.Float32, reflect.Float64:
		w.number(math.Float64bits(v.Float()))
	case reflect.String:
		w.string(v.String())
	case reflect.Struct:
		w.fields(v)
	case reflect.Array, reflect.Slice:
		w.list(v)
	case reflect.Map:
		w.entries(v)
	case reflect.Pointer:
		w.reference(v)
	case reflect.Interface:
		if !v.IsNil() {
			w.string(w.structure(v.Elem().Type()).name)
		}
		w.value(v.Elem())
	default:
		panic(
			fmt.Sprintf("digest: %s has no state that can be read; a field that does not matter carries the tag "+
				"digest:\"-\"", v.Type()))
	}
}

func (w *walk) fields(v reflect.Value) {
	for _, i := range w.structure(v.Type()).fields {
		w.value(v.Field(i))
	}
}

func (w *walk) list(v reflect.Value) {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		w.bool(v.IsNil())
		w.number(uint64(v.Len()))
		w.text.Write(v.Bytes())
		return
	}
	ends := w.structure(v.Type().Elem()).ends && !w.whole
	n := v.Len()
	for i := range v.Len() {
		if ends && ended(v.Index(i)) {
			n--
		}
	}
	w.number(uint64(n))
	for i := range v.Len() {
		if e := v.Index(i); !ends || !ended(e) {
			w.value(e)
		}
	}
}

// ended reports whether an element of a list of enders has.
func ended(v reflect.Value) bool {
	if v.IsNil() {
		return false
	}
	return reflect.NewAt(v.Type().Elem(), v.UnsafePointer()).Interface().(ender).Ended()
}

// entries writes a map in the order of its keys as they are written.
func (w *walk) entries(v reflect.Value) {
	w.number(uint64(v.Len()))
	if v.Len() == 0 {
		return
	}
	type entry struct {
		key   []byte
		value reflect.Value
	}
	all := make([]entry, 0, v.Len())
	key := walk{types: w.types, now: w.now, found: map[place]int{}}
	for i := v.MapRange(); i.Next(); {
		key.value(i.Key())
		if len(key.found) > 0 {
			panic(fmt.Sprintf("digest: the keys of %s refer to something, so they have no order", v.Type()))
		}
		all = append(all, entry{bytes.Clone(key.text.Bytes()), i.Value()})
		key.text.Reset()
	}
	slices.SortFunc(all, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	for _, e := range all {
		w.text.Write(e.key)
		w.value(e.value)
	}
}

// reference writes what a pointer leads to, the first time; then only which of them it was.
func (w *walk) reference(v reflect.Value) {
	if v.IsNil() {
		w.number(0)
		return
	}
	to := place{v.UnsafePointer(), v.Type()}
	if n, ok := w.found[to]; ok {
		w.number(uint64(n))
		return
	}
	w.found[to] = len(w.found) + 1
	w.number(uint64(len(w.found)))
	w.value(v.Elem())
}
