// Package proof lets the members of a cluster tell what one of them has answered from what someone made up: what a
// session depends on is written to the cluster on its behalf, so it must be something that the cluster holds already.
package proof

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/register"
)

const (
	// KeyBytes is the length of a key.
	KeyBytes = 32
	// MaxKeys is how many keys are valid at once: the present one, and one that is going or coming.
	MaxKeys = 2

	idBytes  = 4  // of a proof: which key it was made with
	macBytes = 16 // then an HMAC-SHA256, cut; the rest: the holders
)

// ErrForged is what Check wraps: no member with one of the keys has answered this.
var ErrForged = errors.New("no member of this cluster proves it")

// Keys are the secrets of one cluster, the same at each of its members. They never change once made, and may be used by
// many goroutines.
type Keys struct {
	cluster string
	keys    []key // the first one proves
}

type key struct {
	id     [idBytes]byte
	secret []byte
}

// Parse reads the text of a key file: one key a line, or two, each 64 hexadecimal digits. The first makes proofs, both
// check them. The cluster is the identity for which proofs hold.
func Parse(text []byte, cluster string) (*Keys, error) {
	k := &Keys{cluster: cluster}
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		secret, err := hex.DecodeString(string(bytes.TrimSpace(line)))
		switch {
		case err != nil || len(secret) != KeyBytes:
			return nil,
				fmt.Errorf("line %d is no key: write %d hexadecimal digits, such as `openssl rand -hex %d` prints", i+1,
					2*KeyBytes, KeyBytes)
		case i == MaxKeys:
			return nil, fmt.Errorf("there are more than %d keys; keep the present one and the one before or after it",
				MaxKeys)
		case bytes.Count(secret, secret[:1]) == KeyBytes:
			return nil,
				fmt.Errorf("line %d is no key: it is one byte over and over; draw it at random, such as with "+
					"`openssl rand -hex %d`", i+1, KeyBytes)
		}
		added := key{secret: secret}
		sum := sha256.Sum256(append([]byte("georegister key\x00"), secret...))
		copy(added.id[:], sum[:])
		if slices.ContainsFunc(k.keys, func(other key) bool { return other.id == added.id }) {
			return nil, fmt.Errorf("line %d repeats the key of the line before; leave it out", i+1)
		}
		k.keys = append(k.keys, added)
	}
	return k, nil
}

// Draw makes the text of a key file with one key.
func Draw() []byte {
	secret := make([]byte, KeyBytes)
	_, _ = rand.Read(secret) // it never fails
	return append(hex.AppendEncode(nil, secret), '\n')
}

// Prove returns what proves to every member with the key that one of them has answered with this. A dependency that has
// a proof keeps it.
func (k *Keys) Prove(d register.Dependency) []byte {
	if len(d.Proof) > 0 {
		return d.Proof
	}
	return slices.Concat(k.keys[0].id[:], k.keys[0].mac(k.cluster, &d, d.Holders), d.Holders)
}

// Check reports a dependency that came from a client and that no member of the cluster has answered with; the others
// get the holders that their proofs tell. The error wraps ErrForged.
func (k *Keys) Check(d *register.Dependency) error {
	if n := len(d.Proof); n < idBytes+macBytes || n > idBytes+macBytes+register.MaxHoldersBytes {
		return fmt.Errorf("dependency on %.64q: %w: it has a proof of %d bytes, not %d to %d; send what the answer had",
			d.Key, ErrForged, n, idBytes+macBytes, idBytes+macBytes+register.MaxHoldersBytes)
	}
	id, mac, holders := d.Proof[:idBytes], d.Proof[idBytes:idBytes+macBytes], d.Proof[idBytes+macBytes:]
	for _, key := range k.keys {
		if !bytes.Equal(key.id[:], id) { // which key it was is no secret
			continue
		}
		if subtle.ConstantTimeCompare(key.mac(k.cluster, d, holders), mac) != 1 {
			return fmt.Errorf(
				"dependency on %.64q: %w: key, carstamp, value or proof were changed, or it is of another cluster; "+
					"send all of them as the answer had them", d.Key, ErrForged)
		}
		d.Holders = nil
		if len(holders) > 0 {
			d.Holders = holders
		}
		return nil
	}
	return fmt.Errorf("dependency on %.64q: %w: its key is none of this member's; it is of another cluster, or the "+
		"keys were replaced since: "+
		"read again, and give all members the same keys", d.Key, ErrForged)
}

// mac authenticates all of a dependency. Each part but the last has a fixed length, or its length before it, so that no
// two dependencies have the same text.
func (k *key) mac(cluster string, d *register.Dependency, holders []byte) []byte {
	text := append(make([]byte, 0, 128+len(cluster)+len(d.Key)), "georegister dependency 1\x00"...)
	for _, part := range []string{cluster, d.Key} {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
	}
	for _, number := range []uint64{d.Carstamp.Timestamp, uint64(d.Carstamp.Writer), d.Carstamp.RMWs} {
		text = binary.BigEndian.AppendUint64(text, number)
	}
	value := sha256.Sum256(d.Value)
	if d.Value.Present() {
		text = append(text, 1)
	} else {
		text = append(text, 0)
	}
	hash := hmac.New(sha256.New, k.secret)
	hash.Write(append(append(text, value[:]...), holders...))
	return hash.Sum(nil)[:macBytes]
}
