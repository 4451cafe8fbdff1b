package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// commonLicenses has the licenses that the copyright files of Debian refer to.
const commonLicenses = "/usr/share/common-licenses"

// debianPackage is a package with files in an image.
type debianPackage struct {
	name, version, source, sourceVersion, architecture, homepage string
	status                                                       string // its entry in the database of dpkg
	comment                                                      string // what the image has otherwise than the package
}

// packagesOf returns the packages of a root that have the files, in order.
func packagesOf(ctx context.Context, root rootFolder, files []string) ([]debianPackage, error) {
	var query []string
	for _, file := range files {
		query = append(query, file)
		// dpkg knows many libraries by the path before /lib became a link to /usr/lib.
		if former := strings.TrimPrefix(file, "/usr"); former != file {
			query = append(query, former)
		}
	}
	// It fails because no file has both paths. What it found it prints nevertheless.
	out, err := root.dpkgQuery(ctx, append([]string{"--search"}, query...)...)
	if len(out) == 0 {
		return nil, fmt.Errorf("dpkg-query --search: %w", err)
	}
	owner := map[string]string{}
	for line := range strings.Lines(string(out)) {
		names, path, ok := strings.Cut(strings.TrimSpace(line), ": /")
		if ok && !strings.HasPrefix(names, "diversion ") {
			owner["/"+path], _, _ = strings.Cut(names, ",")
		}
	}
	var names []string
	for _, file := range files {
		name, ok := owner[file]
		if !ok {
			name, ok = owner[strings.TrimPrefix(file, "/usr")]
		}
		if !ok {
			return nil, fmt.Errorf("%s belongs to no Debian package, so its version and its license are unknown", file)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return describePackages(ctx, root, slices.Compact(names))
}

// dpkgQuery asks the database of a root.
func (r rootFolder) dpkgQuery(ctx context.Context, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, "dpkg-query", append([]string{"--admindir=" + r.path("var/lib/dpkg")}, args...)...).Output()
}

func describePackages(ctx context.Context, root rootFolder, names []string) ([]debianPackage, error) {
	const format = "${Package}|${Version}|${source:Package}|${source:Version}|${Architecture}|${Homepage}\n"
	out, err := root.dpkgQuery(ctx, append([]string{"--show", "--showformat=" + format}, names...)...)
	if err != nil {
		return nil, fmt.Errorf("dpkg-query --show: %w", err)
	}
	status, err := root.dpkgQuery(ctx, append([]string{"--status"}, names...)...)
	if err != nil {
		return nil, fmt.Errorf("dpkg-query --status: %w", err)
	}
	entries := map[string]string{}
	for entry := range strings.SplitSeq(strings.TrimSpace(string(status)), "\n\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(entry, "Package: "), "\n")
		entries[name] = entry + "\n"
	}
	var found []debianPackage
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != strings.Count(format, "$") || entries[fields[0]] == "" {
			return nil, fmt.Errorf("dpkg-query describes a package as %q", line)
		}
		found = append(found, debianPackage{name: fields[0], version: fields[1], source: fields[2], sourceVersion: fields[3],
			architecture: fields[4], homepage: fields[5], status: entries[fields[0]]})
	}
	if len(found) != len(names) {
		return nil, fmt.Errorf("dpkg-query describes %d of %d packages", len(found), len(names))
	}
	return found, nil
}

// addTo adds the package's entry for scanners, which read it from this folder in images without
// dpkg, and its copyright file.
func (p debianPackage) addTo(t tree, root rootFolder) error {
	t.text("var/lib/dpkg/status.d/"+p.name, p.status, 0o644)
	copyright := filepath.Join("/usr/share/doc", p.name, "copyright")
	text, err := os.ReadFile(root.path(copyright))
	if err != nil {
		return fmt.Errorf("the package %s has no copyright file: %w", p.name, err)
	}
	t.add(copyright, entry{mode: 0o644, data: bytes.TrimSpace(text)})
	return nil
}

// addFolder adds the files and links of a folder, which is named by its path below the root.
func addFolder(t tree, root rootFolder, folder string) error {
	return filepath.WalkDir(root.path(folder), func(path string, item fs.DirEntry, err error) error {
		if err != nil || item.IsDir() {
			return err
		}
		name, err := root.inside(path)
		if err != nil {
			return err
		}
		if item.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			t.link(name, target)
			return err
		}
		t.file(name, path, 0o644)
		return nil
	})
}
