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
func Of(state any, now protocol.Instant) State {
	w := walk{now: now, found: map[place]int{}}
	w.value(reflect.ValueOf(state))
	return sha256.Sum256(w.text.Bytes())
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
	now   protocol.Instant
	found map[place]int // in the order in which references led there
	text  bytes.Buffer
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
			w.string(v.Elem().Type().String())
		}
		w.value(v.Elem())
	default:
		panic(
			fmt.Sprintf("digest: %s has no state that can be read; a field that does not matter carries the tag "+
				"digest:\"-\"", v.Type()))
	}
}

func (w *walk) fields(v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Tag.Get("digest") != "-" && field.Type != internal && field.Type != sizes &&
			!libraries[v.Type().String()+"."+field.Name] {
			w.value(v.Field(i))
		}
	}
}

func (w *walk) list(v reflect.Value) {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		w.bool(v.IsNil())
		w.number(uint64(v.Len()))
		w.text.Write(v.Bytes())
		return
	}
	n := 0
	for i := range v.Len() {
		if !ended(v.Index(i)) {
			n++
		}
	}
	w.number(uint64(n))
	for i := range v.Len() {
		if e := v.Index(i); !ended(e) {
			w.value(e)
		}
	}
}

// ended reports whether an element of a list is an ender that has.
func ended(v reflect.Value) bool {
	if v.Kind() != reflect.Pointer || v.IsNil() || !v.Type().Implements(enders) {
		return false
	}
	return reflect.NewAt(v.Type().Elem(), v.UnsafePointer()).Interface().(ender).Ended()
}

// entries writes a map in the order of its keys as they are written.
func (w *walk) entries(v reflect.Value) {
	type entry struct {
		key   []byte
		value reflect.Value
	}
	var all []entry
	for i := v.MapRange(); i.Next(); {
		key := walk{now: w.now, found: map[place]int{}}
		key.value(i.Key())
		if len(key.found) > 0 {
			panic(fmt.Sprintf("digest: the keys of %s refer to something, so they have no order", v.Type()))
		}
		all = append(all, entry{key.text.Bytes(), i.Value()})
	}
	slices.SortFunc(all, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	w.number(uint64(len(all)))
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
