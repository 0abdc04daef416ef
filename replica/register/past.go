package register

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Bounds of what operations carry from the reads before them.
const (
	// MaxDependencies is how many one operation carries; a session that has more fences first.
	MaxDependencies = 16
	// MaxDependencyBytes bounds the value of one. A read of a larger value that a quorum may not hold writes it back
	// itself.
	MaxDependencyBytes = 64 << 10
	// MaxProofBytes bounds a proof, with the holders in it.
	MaxProofBytes = 64
	// MaxHoldersBytes bounds what is told of holders.
	MaxHoldersBytes = 40
)

// Dependency is what a regular read told of although a quorum may not hold it yet. Whatever its reader does next, and
// whatever follows from that, must find it there (Helt et al., Regular Sequential Serializability and Regular
// Sequential Consistency, section 7.1).
type Dependency struct {
	Key string
	Versioned
	// Proof tells members that the store has answered with this; it goes along unchanged. Among members there is none.
	Proof []byte
	// Holders tells members who had this on its disk when it was read, as their protocol encodes it; nil: nothing is
	// known. Outside of the store it is in the proof.
	Holders []byte
}

// Past is what one session depends on: it goes along with each of the session's operations until one that carried it is
// done. The zero value depends on nothing. It must not be used by several goroutines at once.
type Past struct {
	dependencies []Dependency // by key, one of each
}

// Len is how many dependencies there are.
func (p *Past) Len() int { return len(p.dependencies) }

// Size is how many bytes the keys and values have that it names.
func (p *Past) Size() (n int) {
	for i := range p.dependencies {
		n += len(p.dependencies[i].Key) + len(p.dependencies[i].Value)
	}
	return n
}

// Full reports whether an operation could not carry all of them: fence until it is not.
func (p *Past) Full() bool { return len(p.dependencies) > MaxDependencies }

// Fence is a fence of the dependencies, of the first MaxDependencies if it is Full.
func (p *Past) Fence() Operation {
	return Operation{Kind: Fence, After: slices.Clone(p.dependencies[:min(len(p.dependencies), MaxDependencies)])}
}

// Attach has an operation that is about to be sent come after the past; a read may then be regular. The past must not
// be Full.
func (p *Past) Attach(op *Operation) {
	op.Regular = op.Kind == Read && !op.Stale
	op.After = slices.Clone(p.dependencies)
}

// Learn notes how an operation ended that was attached, or a fence. What it carried is held by a quorum if it was
// answered, and what it read is depended on if a quorum may not hold that.
func (p *Past) Learn(op *Operation, r Result) {
	if r.Status != OK && r.Status != Failed {
		return
	}
	for _, carried := range op.After {
		if i, found := p.find(carried.Key); found && p.dependencies[i].Carstamp.Compare(carried.Carstamp) <= 0 {
			p.dependencies = slices.Delete(p.dependencies, i, i+1)
		}
	}
	if r.Depends {
		p.add(Dependency{
			Key: op.Key, Versioned: Versioned{Carstamp: r.Carstamp, Value: r.Value}, Proof: r.Proof, Holders: r.Holders,
		})
	}
}

// Join adds what another past depends on.
func (p *Past) Join(other *Past) {
	for _, d := range other.dependencies {
		p.add(d)
	}
}

// Prove gives each dependency its proof.
func (p *Past) Prove(prove func(Dependency) []byte) {
	for i := range p.dependencies {
		p.dependencies[i].Proof = prove(p.dependencies[i])
	}
}

// Check reports the first dependency that check refuses. It may add to dependencies what their proofs tell.
func (p *Past) Check(check func(*Dependency) error) error {
	for i := range p.dependencies {
		if err := check(&p.dependencies[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *Past) find(key string) (int, bool) {
	return slices.BinarySearchFunc(p.dependencies, key, func(d Dependency, key string) int {
		return cmp.Compare(d.Key, key)
	})
}

func (p *Past) add(d Dependency) {
	i, found := p.find(d.Key)
	switch {
	case !found:
		p.dependencies = slices.Insert(p.dependencies, i, d)
	case p.dependencies[i].Carstamp.Less(d.Carstamp):
		p.dependencies[i] = d
	}
}

// pastVersion is the first byte of an encoded past. Its meaning never changes; a later layout has another one.
const pastVersion = 2

// ErrPast is what DecodePast wraps.
var ErrPast = errors.New("not the past of a session")

// Encode writes the past for another session to take over. Of nothing it is two bytes. What is known of holders goes
// along in the proofs alone.
//
// Layout: the version, the number of dependencies, and for each, by key, the length of the key and the key, the three
// parts of the carstamp, the length of the value and 1, or 0 if it is absent, and the value, the length of the proof
// and the proof. Numbers are unsigned varints.
func (p *Past) Encode() []byte {
	b := binary.AppendUvarint([]byte{pastVersion}, uint64(len(p.dependencies)))
	for _, d := range p.dependencies {
		b = append(binary.AppendUvarint(b, uint64(len(d.Key))), d.Key...)
		for _, part := range []uint64{d.Carstamp.Timestamp, uint64(d.Carstamp.Writer), d.Carstamp.RMWs} {
			b = binary.AppendUvarint(b, part)
		}
		if !d.Value.Present() {
			b = append(b, 0)
		} else {
			b = append(binary.AppendUvarint(b, uint64(len(d.Value))+1), d.Value...)
		}
		b = append(binary.AppendUvarint(b, uint64(len(d.Proof))), d.Proof...)
	}
	return b
}

// DecodePast reads what Encode writes, and nothing else. The bytes are not to be trusted; limits bound the keys. The
// error wraps ErrPast.
func DecodePast(b []byte, limits Limits) (Past, error) {
	fail := func(format string, args ...any) (Past, error) {
		return Past{}, fmt.Errorf("%w: %s", ErrPast, fmt.Sprintf(format, args...))
	}
	if len(b) == 0 || b[0] != pastVersion {
		return fail("it does not begin with %d; use the same release everywhere", pastVersion)
	}
	rest, cut := b[1:], false
	number := func() uint64 {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			cut, rest = true, nil
			return 0
		}
		rest = rest[size:]
		return n
	}
	take := func(n uint64) []byte {
		if n > uint64(len(rest)) {
			cut, rest = true, nil
			return nil
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	var p Past
	for count := number(); count > 0 && !cut; count-- {
		d := Dependency{Key: string(take(number()))}
		d.Carstamp = Carstamp{Timestamp: number(), Writer: Writer(number()), RMWs: number()}
		if length := number(); length > 0 {
			d.Value = append(Value{}, take(length-1)...)
		}
		d.Proof = append(d.Proof, take(number())...)
		if cut {
			break
		}
		if err := d.Check(limits); err != nil {
			return fail("%v", err)
		}
		p.dependencies = append(p.dependencies, d)
	}
	switch {
	case cut:
		return fail("it is cut off")
	case !slices.IsSortedFunc(p.dependencies,
		func(a, b Dependency) int { return cmp.Or(cmp.Compare(a.Key, b.Key), -1) }):
		return fail("its keys are not in order")
	case !bytes.Equal(p.Encode(), b): // what can be written in two ways, such as a number, is accepted in one
		return fail("it has bytes that nothing writes")
	}
	return p, nil
}

// Check reports what makes a dependency that came from a client unusable.
func (d *Dependency) Check(limits Limits) error {
	if err := limits.CheckKey(d.Key); err != nil {
		return fmt.Errorf("dependency: %w", err)
	}
	switch {
	case len(d.Value) > MaxDependencyBytes:
		return fmt.Errorf("dependency on %.64q: value of %d bytes is %w: the limit is %d bytes", d.Key, len(d.Value),
			ErrTooLarge, MaxDependencyBytes)
	case d.Carstamp.IsZero():
		return fmt.Errorf("dependency on %.64q: it has no carstamp; leave it out, nobody wrote that", d.Key)
	case d.Carstamp.Check() != nil:
		return fmt.Errorf("dependency on %.64q: no write has carstamp %v; send what an answer had", d.Key, d.Carstamp)
	case len(d.Proof) > MaxProofBytes:
		return fmt.Errorf("dependency on %.64q: proof of %d bytes is %w: the limit is %d bytes", d.Key, len(d.Proof),
			ErrTooLarge, MaxProofBytes)
	}
	return nil
}
