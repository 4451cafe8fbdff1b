package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// rootFolder has the packages of Debian that an image is made of: / of this machine, or the folder that hack/sysroot.sh has
// written for another architecture.
type rootFolder string

// path returns the path on this machine of what has a path below the root.
func (r rootFolder) path(inside string) string { return filepath.Join(string(r), inside) }

// inside returns the path below the root of what has a path on this machine.
func (r rootFolder) inside(path string) (string, error) {
	relative, err := filepath.Rel(string(r), path)
	if err != nil {
		return "", err
	}
	if relative == ".." || strings.HasPrefix(relative, "../") {
		return "", fmt.Errorf("%s is outside of %s: a link leads out of it", path, r)
	}
	return "/" + relative, nil
}
