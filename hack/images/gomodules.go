package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// goModule is a Go module that a program links, or the standard library.
type goModule struct {
	path, version, sum string
	folder             string // with its sources
	licenses           []string
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|unlicense|patents)([-._].*)?$`)

// modulesOf returns the modules that a program links, as the linker recorded them.
func modulesOf(ctx context.Context, program string) ([]goModule, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("%w; run `make build`", err)
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	env := strings.Split(string(out), "\n")
	if env[2] != info.GoVersion {
		return nil, fmt.Errorf("%s was built with %s, and this is %s: build it again", program, info.GoVersion, env[2])
	}
	modules := []goModule{{path: "stdlib", version: strings.TrimPrefix(info.GoVersion, "go"), folder: env[1]}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		escapedPath, err := module.EscapePath(dep.Path)
		if err != nil {
			return nil, err
		}
		escapedVersion, err := module.EscapeVersion(dep.Version)
		if err != nil {
			return nil, err
		}
		modules = append(modules, goModule{path: dep.Path, version: dep.Version, sum: dep.Sum,
			folder: filepath.Join(env[0], filepath.FromSlash(escapedPath)+"@"+escapedVersion)})
	}
	for i := range modules {
		if err := modules[i].findLicenses(); err != nil {
			return nil, err
		}
	}
	return modules, nil
}

// findLicenses finds the license files. Parts of a module may have their own.
func (m *goModule) findLicenses() error {
	err := filepath.WalkDir(m.folder, func(path string, item fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case item.IsDir():
			// The sources of Go are not walked: what programs link of them has one license.
			if path != m.folder && (m.path == "stdlib" || item.Name() == "testdata" || strings.HasPrefix(item.Name(), ".")) {
				return fs.SkipDir
			}
		case item.Type().IsRegular() && licenseFile.MatchString(item.Name()) && filepath.Ext(item.Name()) != ".go":
			m.licenses = append(m.licenses, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the sources of %s %s are missing: %w; run `go mod download`", m.path, m.version, err)
	}
	if len(m.licenses) == 0 {
		return fmt.Errorf("%s %s has no license file", m.path, m.version)
	}
	return nil
}

// addLicenses adds the license files below a folder.
func (m goModule) addLicenses(t tree, folder string) error {
	for _, license := range m.licenses {
		name, err := filepath.Rel(m.folder, license)
		if err != nil {
			return err
		}
		t.file(path.Join(folder, m.path+"@"+m.version, filepath.ToSlash(name)), license, 0o644)
	}
	return nil
}

// declaredLicense returns the SPDX identifier of the license in the module's root, if it is a
// known text.
func (m goModule) declaredLicense() string {
	var ids []string
	for _, file := range m.licenses {
		if filepath.Dir(file) != m.folder {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if found := licensecheck.Scan(text); found.Percent >= 75 {
			for _, match := range found.Match {
				if match.ID != "GooglePatentsFile" { // no identifier of SPDX
					ids = append(ids, match.ID)
				}
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return unknown
	}
	return strings.Join(ids, " AND ")
}
