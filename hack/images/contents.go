package main

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// The images, and the folder of their programs.
var imageNames = []string{"operator", "runtime"}

const (
	programs = "usr/local/bin"
	// userID is the user of every process, which has no name in any cluster.
	userID = 65532
)

// contents is what an image has: files of Debian in one layer, and above it the programs, which
// change with every version.
type contents struct {
	name           string
	architecture   string // as Go names it
	base, programs tree
	packages       []debianPackage
	modules        []goModule
	ports          []string
}

// size returns the bytes of all files.
func (c contents) size() int64 { return c.base.size() + c.programs.size() }

// entrypoint returns the program that the image runs.
func (c contents) entrypoint() string { return "/" + programs + "/mediastack-" + c.name }

// collect returns the contents of an image.
func collect(ctx context.Context, name string, from source) (contents, error) {
	switch name {
	case "operator":
		return collectOperator(ctx, from)
	case "runtime":
		return collectRuntime(ctx, from)
	}
	return contents{}, fmt.Errorf("there is no image %q", name)
}

// collectOperator returns the operator, which is static and needs certificates and a user only.
func collectOperator(ctx context.Context, from source) (contents, error) {
	c := contents{name: "operator", architecture: from.architecture(), base: tree{}, programs: tree{}, ports: []string{"8080/tcp", "8081/tcp"}}
	return c, errors.Join(c.addBase(ctx, from.root(), nil), c.addPrograms(ctx, from, "mediastack-operator"))
}

// collectRuntime returns the runtime and the image worker, with libvips and what it loads.
func collectRuntime(ctx context.Context, from source) (contents, error) {
	c := contents{name: "runtime", architecture: from.architecture(), base: tree{}, programs: tree{}, ports: []string{"8080/tcp", "8081/tcp"}}
	libraries, err := closure(from.root(), filepath.Join(from.Bin, "mediastack-imaging"))
	if err != nil {
		return c, err
	}
	if err := errors.Join(c.addBase(ctx, from.root(), libraries), c.addPrograms(ctx, from, "mediastack-runtime", "mediastack-imaging")); err != nil {
		return c, err
	}
	licenses, err := filepath.Glob(filepath.Join(from.Viewer, "[LN]*"))
	if err != nil || len(licenses) == 0 {
		return c, fmt.Errorf("%s has no license (%w)", from.Viewer, cmp.Or(err, fs.ErrNotExist))
	}
	for _, license := range licenses {
		c.programs.file("licenses/swagger-ui/"+filepath.Base(license), license, 0o644)
	}
	return c, nil
}

// addBase adds users, certificates and libraries, and describes the packages that have them.
func (c *contents) addBase(ctx context.Context, root rootFolder, libraries []string) error {
	c.base.text("etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%[1]d:%[1]d:nonroot:/:/sbin/nologin\n", userID), 0o644)
	c.base.text("etc/group", fmt.Sprintf("root:x:0:\nnonroot:x:%d:\n", userID), 0o644)
	c.base.text("etc/nsswitch.conf", "hosts: files dns\n", 0o644)
	c.base.add("tmp", entry{mode: fs.ModeDir | fs.ModeSticky | 0o777})
	authorities, err := filepath.Glob(root.path("/usr/share/ca-certificates/mozilla/*.crt"))
	if err != nil || len(authorities) == 0 {
		return errors.New("there are no certificate authorities: run `apt-get install ca-certificates`")
	}
	bundle, err := certificates(authorities)
	if err != nil {
		return err
	}
	c.base.text("etc/ssl/certs/ca-certificates.crt", bundle, 0o644)
	var owned []string
	for _, authority := range authorities {
		inside, err := root.inside(authority)
		if err != nil {
			return err
		}
		owned = append(owned, inside)
	}
	if len(libraries) > 0 {
		const release = "/usr/lib/os-release" // by which scanners know the distribution
		c.base.file(release, root.path(release), 0o644)
		c.base.link("etc/os-release", "../usr/lib/os-release")
		added, err := addLibraries(c.base, root, libraries)
		if err != nil {
			return err
		}
		owned = append(append(owned, release), added...)
		if err := replaceICUData(ctx, c.base, c.architecture); err != nil {
			return err
		}
	}
	if c.packages, err = packagesOf(ctx, root, owned); err != nil {
		return err
	}
	for i, p := range c.packages {
		if strings.HasPrefix(p.name, icuPackage) {
			c.packages[i].comment = icuComment
		}
		if err := p.addTo(c.base, root); err != nil {
			return err
		}
	}
	return addFolder(c.base, root, commonLicenses)
}

// addPrograms adds programs with the licenses of the modules that they link.
func (c *contents) addPrograms(ctx context.Context, from source, names ...string) error {
	c.programs.file("licenses/mediastack/LICENSE", from.License, 0o644)
	byPath := map[string]goModule{}
	for _, name := range names {
		program := filepath.Join(from.Bin, name)
		if name != "mediastack-imaging" {
			if err := requireStatic(program); err != nil {
				return err
			}
		}
		if err := requireArchitecture(program, c.architecture); err != nil {
			return err
		}
		c.programs.file(programs+"/"+name, program, 0o755)
		modules, err := modulesOf(ctx, program)
		if err != nil {
			return err
		}
		for _, m := range modules {
			byPath[m.path] = m
		}
	}
	c.modules = slices.SortedFunc(maps.Values(byPath), func(a, b goModule) int { return strings.Compare(a.path, b.path) })
	for i, m := range c.modules {
		if err := m.addLicenses(c.programs, "licenses"); err != nil {
			return err
		}
		c.modules[i] = m
	}
	return nil
}

// requireStatic returns an error if a program needs a dynamic loader.
func requireStatic(program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("%w; run `make build`", err)
	}
	defer func() { _ = file.Close() }()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: build it with CGO_ENABLED=0", program)
		}
	}
	return nil
}

// requireArchitecture returns an error if a program is for another architecture.
func requireArchitecture(program, architecture string) error {
	file, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("%w; run `make build`", err)
	}
	defer func() { _ = file.Close() }()
	if want := (map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64})[architecture]; file.Machine != want {
		return fmt.Errorf("%s is for %s, not for %s", program, file.Machine, architecture)
	}
	return nil
}
