package storage

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/view"
)

// viewFile holds the latest view that the member was given. It is a file of its own, beside the identity: it
// outlives a database that is wiped, whatever the durability, and people can read it.
const viewFile = "VIEW"

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
	return durable.WriteDocument(fs, directory, viewFile, DiskVersion, v)
}

// readView returns a view of epoch 0 if there is none. Its error wraps durable.ErrDamaged if it is not what was saved.
func readView(fs vfs.FS, directory, cluster string) (view.View, error) {
	var v view.View
	found, err := durable.ReadDocument(fs, directory, viewFile, DiskVersion, &v)
	if err != nil || !found {
		return view.View{}, err
	}
	if err := v.Validate(); err != nil {
		return view.View{}, fmt.Errorf("view %s is %w: %w", fs.PathJoin(directory, viewFile), durable.ErrDamaged, err)
	}
	if v.Cluster != cluster {
		return view.View{}, fmt.Errorf("%w: its view is of cluster %s, this member's is %s",
			ErrForeign, v.Cluster, cluster)
	}
	return v, nil
}
