package storage

import (
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/view"
)

// viewFile holds the latest view that the member was given. It is a file of its own, beside the identity: it
// outlives a database that is wiped, whatever the durability, and people can read it.
const viewFile = "VIEW"

// viewRecord is the view as it lies in viewFile. The digest tells a damaged file from a good one.
type viewRecord struct {
	Digest string    `json:"digest"`
	View   view.View `json:"view"`
}

// View is the latest view that was saved; its epoch is 0 if there is none.
func (s *Store) View() view.View {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.view
}

// SaveView makes v the view of this member, and returns when that is durable. A failure is one of the disk: what
// it holds then is not known. Without a directory the view lasts as long as the store.
func (s *Store) SaveView(v view.View) error {
	if s.options.Directory != "" {
		err := writeView(s.options.FileSystem, s.options.Directory, v)
		if err == nil {
			// Later than the view: an older one is not taken for the latest from here on.
			err = s.note(func(r *record) { r.Epoch = v.Epoch })
		}
		if err != nil {
			s.failure.set(fmt.Errorf("disk failed: %w", err))
			return fmt.Errorf("storage %s: %w", s.options.Directory, err)
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.view = v
	return nil
}

func writeView(fs vfs.FS, directory string, v view.View) error {
	data, err := json.MarshalIndent(viewRecord{Digest: v.Digest(), View: v}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode view: %w", err)
	}
	if err := durable.Replace(fs, directory, viewFile, append(data, '\n')); err != nil {
		return fmt.Errorf("write view: %w", err)
	}
	return nil
}

// readView returns a view of epoch 0 if there is none. Its error wraps durable.ErrDamaged if it is not what was saved.
func readView(fs vfs.FS, directory, cluster string) (view.View, error) {
	path := fs.PathJoin(directory, viewFile)
	data, err := durable.Read(fs, path)
	if data == nil || err != nil {
		return view.View{}, err
	}
	var r viewRecord
	if err = json.Unmarshal(data, &r); err == nil {
		err = r.check()
	}
	switch {
	case err != nil:
		return view.View{}, fmt.Errorf("view %s is %w: %w", path, durable.ErrDamaged, err)
	case r.View.Cluster != cluster:
		return view.View{}, fmt.Errorf("%w: its view is of cluster %s, this member's is %s", ErrForeign, r.View.Cluster, cluster)
	}
	return r.View, nil
}

// check reports a record that is not what was saved.
func (r *viewRecord) check() error {
	if got := r.View.Digest(); got != r.Digest {
		return fmt.Errorf("its digest is %s, not %s", got, r.Digest)
	}
	return r.View.Validate()
}
