// Command image writes a container image that needs no base image, builder or registry: an archive in the format
// of `docker save`, which containerd, Docker and kind load.
//
//	image -o georegister.tar -t georegister:dev -entrypoint /georegister -user 65532 -dir /data bin/georegister=/georegister
//
// Each argument is a file of this machine and its path in the image; a symbolic link is followed. The archive
// depends on the files' contents alone: the same files give the same image.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// words is a flag that may be given several times.
type words []string

func (w *words) String() string         { return strings.Join(*w, " ") }
func (w *words) Set(value string) error { *w = append(*w, value); return nil }

// recipe is what an image is made of.
type recipe struct {
	entrypoint []string
	user       int   // who the process runs as, and who owns dirs
	dirs       words // empty directories that the user may write to
	links      words // symbolic links, each TARGET=PATH
	files      []string
}

func main() {
	var r recipe
	out := flag.String("o", "", "the archive to write")
	tag := flag.String("t", "", "the image's name and tag")
	entrypoint := flag.String("entrypoint", "", "the command that a container runs, words separated by spaces")
	flag.IntVar(&r.user, "user", 0, "the numeric user that a container runs as")
	flag.Var(&r.dirs, "dir", "a directory that the user may write to (may be repeated)")
	flag.Var(&r.links, "link", "a symbolic link, TARGET=PATH (may be repeated)")
	flag.Parse()
	r.entrypoint = strings.Fields(*entrypoint)
	r.files = flag.Args()
	if err := write(*out, *tag, r); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write makes the image and leaves it at out under the given tag.
func write(out, tag string, r recipe) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("-t: %w", err)
	}
	content, err := r.layer()
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	})
	if err != nil {
		return fmt.Errorf("make the layer: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("add the layer: %w", err)
	}
	image, err = mutate.ConfigFile(image, r.config(layer))
	if err != nil {
		return fmt.Errorf("set the configuration: %w", err)
	}
	if err := tarball.WriteToFile(out, ref, image); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	return nil
}

// config describes the container; its layer is named by the digest of what it unpacks to.
func (r recipe) config(layer v1.Layer) *v1.ConfigFile {
	diff, err := layer.DiffID()
	if err != nil {
		panic(err) // it was computed when the layer was made
	}
	return &v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
		Config: v1.Config{
			Entrypoint: r.entrypoint,
			User:       fmt.Sprintf("%d:%d", r.user, r.user),
			Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		},
	}
}

// layer is the image's file system as a tar archive. No file has a time, so that equal contents are equal bytes.
func (r recipe) layer() ([]byte, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, dir := range r.dirs {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: rooted(dir) + "/", Mode: 0o755, Uid: r.user, Gid: r.user}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("add %s: %w", dir, err)
		}
	}
	for _, pair := range r.links {
		target, at, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("-link %s: want TARGET=PATH", strconv.Quote(pair))
		}
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: rooted(at), Linkname: target, Mode: 0o777}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("add %s: %w", at, err)
		}
	}
	for _, pair := range r.files {
		from, to, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%s: want FILE=PATH", strconv.Quote(pair))
		}
		if err := add(w, from, to); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end the layer: %w", err)
	}
	return content.Bytes(), nil
}

// add puts one file into the layer, with its permissions and owned by root.
func add(w *tar.Writer, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: rooted(to), Mode: int64(info.Mode().Perm()), Size: int64(len(content)),
	}
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("add %s: %w", to, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("add %s: %w", to, err)
	}
	return nil
}

// rooted is an absolute path as archives write it.
func rooted(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }
