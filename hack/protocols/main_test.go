package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What is generated is what stands in the project, among it which commands of Redis a protocol refuses.
func TestGeneratedIsUpToDate(t *testing.T) {
	t.Chdir("../..")
	out := t.TempDir()
	if err := generate(out); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, path)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): run make manifests", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
