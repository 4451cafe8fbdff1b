package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// closure returns the paths, below the root, of the shared libraries of the image worker: those that it is linked with, and
// those that libvips and libheif load by name.
func closure(root rootFolder, worker string) ([]string, error) {
	libraries, err := dependencies(root, worker)
	if err != nil {
		return nil, fmt.Errorf("%w; run `make build`", err)
	}
	at := slices.IndexFunc(libraries, func(path string) bool { return strings.HasPrefix(filepath.Base(path), "libvips.so.") })
	if at < 0 {
		return nil, fmt.Errorf("%s does not link libvips", worker)
	}
	folder, err := filepath.EvalSymlinks(root.path(filepath.Dir(libraries[at])))
	if err != nil {
		return nil, err
	}
	modules, err := loadedByName(folder)
	if err != nil {
		return nil, err
	}
	all, err := dependencies(root, append([]string{worker}, modules...)...)
	if err != nil {
		return nil, err
	}
	for _, module := range modules {
		inside, err := root.inside(module)
		if err != nil {
			return nil, err
		}
		all = append(all, inside)
	}
	return all, nil
}

// loadedByName returns the modules of libvips that a supported format needs, and the plug-ins of
// libheif, which some versions of Debian have in packages of their own.
func loadedByName(folder string) ([]string, error) {
	modules, err := filepath.Glob(filepath.Join(folder, "vips-modules-*", "vips-heif.so"))
	if err != nil || len(modules) != 1 {
		return nil, fmt.Errorf("there are %d files vips-modules-*/vips-heif.so in %s, not one: without this module of libvips HEIC and AVIF files have no thumbnail", len(modules), folder)
	}
	plugins, err := filepath.Glob(filepath.Join(folder, "libheif", "plugins", "*.so"))
	return append(modules, plugins...), err
}

// triplets are the names that Debian's folders of libraries have.
var triplets = map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu"}

// dependencies returns the shared libraries, below the root, that the loader finds for programs and libraries, the loader
// included. It reads the files as the loader does, since that of another architecture cannot run here.
func dependencies(root rootFolder, files ...string) ([]string, error) {
	found := map[string]bool{} // by name
	var paths []string
	for len(files) > 0 {
		file := files[0]
		files = files[1:]
		needs, err := needed(file)
		if err != nil {
			return nil, err
		}
		if needs.loader != "" && !slices.Contains(paths, needs.loader) {
			paths = append(paths, needs.loader)
		}
		for _, name := range needs.libraries {
			// The loader is also a library that others name.
			if found[name] || filepath.Base(needs.loader) == name {
				continue
			}
			found[name] = true
			path, err := root.library(name, needs.folders)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if slices.Contains(paths, path) {
				continue
			}
			paths = append(paths, path)
			files = append(files, root.path(path))
		}
	}
	slices.Sort(paths)
	return withoutDoubleLoader(paths), nil
}

// withoutDoubleLoader removes the loader where a library names it: it is found at its own path, and at that of the libraries.
func withoutDoubleLoader(paths []string) []string {
	count := map[string]int{}
	for _, path := range paths {
		count[filepath.Base(path)]++
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return count[filepath.Base(path)] > 1 && strings.HasPrefix(filepath.Base(path), "ld-linux") && strings.HasSuffix(filepath.Dir(path), "-linux-gnu")
	})
}

// need is what a program or a library needs.
type need struct {
	loader             string
	libraries, folders []string
}

func needed(file string) (need, error) {
	program, err := elf.Open(file)
	if err != nil {
		return need{}, err
	}
	defer func() { _ = program.Close() }()
	triplet, ok := triplets[program.Machine]
	if !ok {
		return need{}, fmt.Errorf("%s is for %s", file, program.Machine)
	}
	var needs need
	if section := program.Section(".interp"); section != nil {
		text, err := section.Data()
		if err != nil {
			return need{}, err
		}
		needs.loader = strings.TrimRight(string(text), "\x00")
	}
	if needs.libraries, err = program.ImportedLibraries(); err != nil {
		return need{}, err
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, err := program.DynString(tag)
		if err != nil {
			return need{}, err
		}
		for _, value := range values {
			needs.folders = append(needs.folders, strings.Split(value, ":")...)
		}
	}
	needs.folders = append(needs.folders, "/lib/"+triplet, "/usr/lib/"+triplet, "/lib", "/usr/lib")
	return needs, nil
}

// library returns the path of a library below the root.
func (r rootFolder) library(name string, folders []string) (string, error) {
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(r.path(path)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the library %s is missing", name)
}

// addLibraries adds libraries at their paths, with the links of Debian's folders. It returns the
// paths of the files below the root.
func addLibraries(t tree, root rootFolder, libraries []string) ([]string, error) {
	var files []string
	for _, library := range libraries {
		var file string
		for range 10 {
			folder, err := filepath.EvalSymlinks(root.path(filepath.Dir(library)))
			if err != nil {
				return nil, err
			}
			if library, err = root.inside(filepath.Join(folder, filepath.Base(library))); err != nil {
				return nil, err
			}
			file = root.path(library)
			target, err := os.Readlink(file)
			if err != nil { // a file, not a link
				break
			}
			t.link(library, target)
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(library), target)
			}
			library = target
		}
		info, err := os.Lstat(file)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s leads through too many links", library)
		}
		t.file(library, file, info.Mode().Perm())
		files = append(files, library)
	}
	for _, folder := range []string{"/lib", "/lib64"} {
		target, err := os.Readlink(root.path(folder))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not a link, as it is in Debian 12 and later: %w", root.path(folder), err)
		}
		if _, ok := t[clean(target)]; ok {
			t.link(folder, target)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}
