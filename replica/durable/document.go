package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// document is a JSON file, for people too, that carries the version of its layout and a digest of both.
type document struct {
	Version int             `json:"disk_version"`
	Digest  string          `json:"digest"`
	Content json.RawMessage `json:"content"`
}

// digest is that of version and content, whatever space is between the words.
func (d *document) digest() (string, error) {
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "%d ", d.Version)
	if err := json.Compact(&b, d.Content); err != nil {
		return "", err
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:8]), nil
}

// ReadDocument reads what WriteDocument wrote into content, and reports whether there is such a file. Its error wraps
// ErrDamaged if the file is not what was written; a file that is, of another version, is refused with other words.
func ReadDocument(fs vfs.FS, directory, name string, version int, content any) (bool, error) {
	path := fs.PathJoin(directory, name)
	data, err := Read(fs, path)
	if data == nil || err != nil {
		return false, err
	}
	return true, parseDocument(path, data, version, content)
}

func parseDocument(path string, data []byte, version int, content any) error {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("%s is %w: %w", path, ErrDamaged, err)
	}
	if d.Digest != "" || d.Content != nil || d.Version == version { // else it was written before there were digests
		if digest, err := d.digest(); err != nil || digest != d.Digest {
			return fmt.Errorf("%s is %w: its digest is %q, not %q", path, ErrDamaged, digest, d.Digest)
		}
	}
	if d.Version != version {
		return fmt.Errorf("%s: disk version %d is not %d, the one of this program; the disk is whole: "+
			"start it with the program that wrote it", path, d.Version, version)
	}
	if err := json.Unmarshal(d.Content, content); err != nil {
		return fmt.Errorf("%s is %w: %w", path, ErrDamaged, err)
	}
	return nil
}

// WriteDocument replaces a document as a whole and returns when that is durable.
func WriteDocument(fs vfs.FS, directory, name string, version int, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	d := document{Version: version, Content: raw}
	if d.Digest, err = d.digest(); err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := Replace(fs, directory, name, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
