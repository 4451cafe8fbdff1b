package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A line of ldd: "libm.so.6 => /lib/libm.so.6 (0x7f)", "/lib64/ld.so (0x7f)" or "libm.so.6 => not found".
var loaded = regexp.MustCompile(`(?m)^\s+(?:(\S+) => )?(/\S+|not found)`)

// closure returns the paths of the shared libraries of the image worker: those that it is
// linked with, and those that libvips and libheif load by name, which ldd does not list.
func closure(ctx context.Context, worker string) ([]string, error) {
	libraries, err := dependencies(ctx, worker)
	if err != nil {
		return nil, fmt.Errorf("%w; run `make build`", err)
	}
	at := slices.IndexFunc(libraries, func(path string) bool { return strings.HasPrefix(filepath.Base(path), "libvips.so.") })
	if at < 0 {
		return nil, fmt.Errorf("%s does not link libvips", worker)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(libraries[at]))
	if err != nil {
		return nil, err
	}
	modules, err := loadedByName(folder)
	if err != nil {
		return nil, err
	}
	all, err := dependencies(ctx, append([]string{worker}, modules...)...)
	return append(all, modules...), err
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

// dependencies returns the shared libraries that the loader finds for programs and libraries,
// the loader included.
func dependencies(ctx context.Context, files ...string) ([]string, error) {
	command := exec.CommandContext(ctx, "ldd", files...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} // without LD_LIBRARY_PATH
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", strings.Join(files, " "), err)
	}
	var found []string
	for _, match := range loaded.FindAllStringSubmatch(string(out), -1) {
		if match[2] == "not found" {
			return nil, fmt.Errorf("the library %s is missing", match[1])
		}
		found = append(found, match[2])
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// addLibraries adds libraries at their paths, with the links of Debian's folders. It returns the
// paths of the files.
func addLibraries(t tree, libraries []string) ([]string, error) {
	var files []string
	for _, library := range libraries {
		for range 10 {
			folder, err := filepath.EvalSymlinks(filepath.Dir(library))
			if err != nil {
				return nil, err
			}
			library = filepath.Join(folder, filepath.Base(library))
			target, err := os.Readlink(library)
			if err != nil { // a file, not a link
				break
			}
			t.link(library, target)
			if !filepath.IsAbs(target) {
				target = filepath.Join(folder, target)
			}
			library = target
		}
		info, err := os.Lstat(library)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s leads through too many links", library)
		}
		t.file(library, library, info.Mode().Perm())
		files = append(files, library)
	}
	for _, folder := range []string{"/lib", "/lib64"} {
		target, err := os.Readlink(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not a link, as it is in Debian 12 and later: %w", folder, err)
		}
		if _, ok := t[clean(target)]; ok {
			t.link(folder, target)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}
