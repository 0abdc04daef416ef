package proof

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/register"
)

func parse(t testing.TB, text []byte, cluster string) *Keys {
	t.Helper()
	k, err := Parse(text, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func dependency(key, value string, timestamp uint64) register.Dependency {
	return register.Dependency{
		Key:       key,
		Versioned: register.Versioned{Value: register.Value(value), Carstamp: register.Carstamp{Timestamp: timestamp}},
	}
}

func TestKeysCanBeReplaced(t *testing.T) {
	one, two, three := Draw(), Draw(), Draw()
	old, next := parse(t, one, "c"), parse(t, append(bytes.Clone(two), one...), "c")
	d := dependency("k", "v", 1)
	d.Proof = old.Prove(d)
	if err := next.Check(&d); err != nil {
		t.Errorf("the key before is not taken: %v", err)
	}
	d.Proof = nil
	d.Proof = next.Prove(d)
	if err := parse(t, append(bytes.Clone(one), two...), "c").Check(&d); err != nil {
		t.Errorf("the key that comes is not taken: %v", err)
	}
	for name, k := range map[string]*Keys{
		"without the key": old, "with others": parse(t, three, "c"), "of another cluster": parse(t, two, "d"),
	} {
		if err := k.Check(&d); !errors.Is(err, ErrForged) {
			t.Errorf("a member %s says %v", name, err)
		}
	}
}

// Parts must not be moved from one field to another.
func TestEveryPartCounts(t *testing.T) {
	k := parse(t, Draw(), "c")
	d := dependency("key", "value", 1)
	d.Proof = k.Prove(d)
	for _, other := range []register.Dependency{dependency("keyv", "alue", 1), dependency("key", "", 1),
		dependency("key", "value", 2),
		{Key: "key", Versioned: register.Versioned{Carstamp: d.Carstamp}}} {
		other.Proof = d.Proof
		if err := k.Check(&other); !errors.Is(err, ErrForged) {
			t.Errorf("%+v is taken: %v", other, err)
		}
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := Load(path, "c"); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "make it once for the cluster") {
		t.Errorf("without a file: %v", err)
	}
	if err := errors.Join(Make(path), Make(path)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Load(path, "c")
	if err != nil {
		t.Fatal(err)
	}
	d := dependency("k", "v", 1)
	d.Proof = k.Prove(d)
	if err := parse(t, text, "c").Check(&d); err != nil {
		t.Error(err)
	}
	for mode, taken := range map[os.FileMode]bool{
		0o400: true, 0o640: true, 0o440: true, 0o660: false, 0o604: false, 0o602: false, 0o644: false,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, "c"); (err == nil) != taken ||
			err != nil && !strings.Contains(err.Error(), "others may read") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestWhatIsNoKey(t *testing.T) {
	good := strings.TrimSpace(string(Draw()))
	for text, want := range map[string]string{
		"":                             "line 1 is no key",
		"secret":                       "line 1 is no key",
		good[:62]:                      "line 1 is no key",
		good + "\nx":                   "line 2 is no key",
		good + "\n" + good:             "line 2 repeats",
		strings.Repeat("00", KeyBytes): "one byte over and over",
		good + "\n" + string(Draw()) + string(Draw()): "more than 2 keys",
	} {
		if _, err := Parse([]byte(text), "c"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A member learns from a proof who held what it proves, and from no other bytes.
func TestAProofTellsTheHolders(t *testing.T) {
	k := parse(t, Draw(), "c")
	d := dependency("key", "value", 1)
	d.Holders = []byte{1, 2, 3}
	d.Proof = k.Prove(d)
	if len(d.Proof) > register.MaxProofBytes {
		t.Errorf("the proof has %d bytes", len(d.Proof))
	}
	told := dependency("key", "value", 1)
	told.Proof = d.Proof
	if err := k.Check(&told); err != nil || !bytes.Equal(told.Holders, d.Holders) {
		t.Errorf("%v are told, want %v: %v", told.Holders, d.Holders, err)
	}
	for i := range d.Proof {
		changed := dependency("key", "value", 1)
		changed.Proof = bytes.Clone(d.Proof)
		changed.Proof[i]++
		if err := k.Check(&changed); !errors.Is(err, ErrForged) || changed.Holders != nil {
			t.Errorf("with another byte %d it tells %v: %v", i, changed.Holders, err)
		}
	}
	for _, proof := range [][]byte{d.Proof[:len(d.Proof)-1], append(bytes.Clone(d.Proof), 4), d.Proof[:20]} {
		other := dependency("key", "value", 1)
		other.Proof = proof
		if err := k.Check(&other); !errors.Is(err, ErrForged) {
			t.Errorf("of %d bytes it is taken: %v", len(proof), err)
		}
	}
}

// FuzzProof shows that whatever a client sends as a proof is refused, unless it is the one that was made.
func FuzzProof(f *testing.F) {
	k := parse(f, []byte(strings.Repeat("0123456789abcdef", 4)), "c")
	d := dependency("key", "value", 7)
	good := k.Prove(d)
	f.Add("key", []byte("value"), uint64(7), good)
	f.Add("key", []byte("value"), uint64(8), good)
	f.Add("", []byte{}, uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, key string, value []byte, timestamp uint64, proof []byte) {
		if value == nil {
			value = []byte{}
		}
		got := dependency(key, string(value), timestamp)
		got.Proof = proof
		honest := key == d.Key && bytes.Equal(value, d.Value) && timestamp == 7 && bytes.Equal(proof, good)
		if err := k.Check(&got); (err == nil) != honest || err != nil && !errors.Is(err, ErrForged) {
			t.Errorf("%+v: %v", got, err)
		}
	})
}
