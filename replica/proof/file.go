package proof

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// others are the permissions that a key file must not have: for all who are not its owner, and for its group all but
// reading, which Kubernetes gives to the group of a pod.
const others = 0o037

// Load reads a key file. It refuses one that others may read or change.
func Load(path, cluster string) (*Keys, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil,
			fmt.Errorf("%w; make it once for the cluster, such as with `(umask 077; openssl rand -hex %d > %s)`, and "+
				"give the same file to all members",
				err, KeyBytes, path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&others != 0 {
		return nil,
			fmt.Errorf("%s: others may read or change it (mode %04o), so its keys may be known; replace them, and "+
				"`chmod 0600 %s`", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(file, 1<<10))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	keys, err := Parse(text, cluster)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// Make makes a key file with one key that only its owner may read, unless the file is there.
func Make(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	// It appears as a whole: a process that ends in between leaves none, or one that is complete.
	part, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	defer os.Remove(part.Name())
	_, err = part.Write(Draw())
	if err = errors.Join(err, part.Sync(), part.Close()); err == nil {
		err = os.Link(part.Name(), path)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the key file: %w", err)
	}
	return nil
}
