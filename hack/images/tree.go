package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// tree is a part of a file system: its files by path, without a leading slash. All of them
// belong to root and have the same time, so that the same input gives the same bytes.
type tree map[string]entry

// entry is a file, a directory or a symbolic link.
type entry struct {
	mode   fs.FileMode
	data   []byte // content of a file, unless source is set
	source string // file with the content
	target string // of a symbolic link
}

// clean returns a path as the keys of a tree have it.
func clean(name string) string { return path.Clean("/" + filepath.ToSlash(name))[1:] }

func (t tree) add(name string, e entry) {
	name = clean(name)
	if dir := path.Dir(name); dir != "." {
		if _, ok := t[dir]; !ok {
			t.add(dir, entry{mode: fs.ModeDir | 0o755})
		}
	}
	t[name] = e
}

// file adds a file with the content of another one.
func (t tree) file(name, source string, mode fs.FileMode) {
	t.add(name, entry{mode: mode, source: source})
}

// text adds a file.
func (t tree) text(name, content string, mode fs.FileMode) {
	t.add(name, entry{mode: mode, data: []byte(content)})
}

// link adds a symbolic link.
func (t tree) link(name, target string) {
	t.add(name, entry{mode: fs.ModeSymlink | 0o777, target: target})
}

// paths returns the paths in order, each folder before what is in it.
func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }

// size returns the bytes of all files.
func (t tree) size() int64 {
	var total int64
	for _, e := range t {
		total += int64(len(e.data))
		if e.source != "" {
			if info, err := os.Stat(e.source); err == nil {
				total += info.Size()
			}
		}
	}
	return total
}

// open returns the content of a file.
func (e entry) open() (io.ReadCloser, int64, error) {
	if e.source == "" {
		return io.NopCloser(bytes.NewReader(e.data)), int64(len(e.data)), nil
	}
	file, err := os.Open(e.source)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// writeTar writes the tree as a tar archive.
func (t tree) writeTar(out io.Writer) error {
	archive := tar.NewWriter(out)
	for _, name := range t.paths() {
		if err := t[name].writeTar(archive, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return archive.Close()
}

func (e entry) writeTar(archive *tar.Writer, name string) (err error) {
	header := &tar.Header{Name: name, Mode: int64(e.mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if e.mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	switch e.mode.Type() {
	case fs.ModeDir:
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return archive.WriteHeader(header)
	case fs.ModeSymlink:
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.target
		return archive.WriteHeader(header)
	}
	content, size, err := e.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	header.Typeflag, header.Size = tar.TypeReg, size
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// writeFolder writes trees, one over the other, to a folder that is empty or missing.
func writeFolder(folder string, trees ...tree) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	existing, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if len(existing) > 0 {
		return fmt.Errorf("%s is not empty", folder)
	}
	merged := tree{}
	for _, t := range trees {
		maps.Copy(merged, t)
	}
	for _, name := range merged.paths() {
		if err := merged[name].writeFile(filepath.Join(folder, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

func (e entry) writeFile(name string) (err error) {
	switch e.mode.Type() {
	case fs.ModeDir:
		if err := os.Mkdir(name, 0o755); err != nil {
			return err
		}
		return os.Chmod(name, e.mode&^fs.ModeDir) // without the umask
	case fs.ModeSymlink:
		return os.Symlink(e.target, name)
	}
	content, _, err := e.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, e.mode.Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		return errors.Join(err, file.Close())
	}
	return errors.Join(file.Chmod(e.mode.Perm()), file.Close())
}
