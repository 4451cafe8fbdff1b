// Package docs_test holds the documentation to what is in the repository.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`(Test\\w+)`(?: \\(`([\\w/]+)`\\))?")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor  = regexp.MustCompile(`[^\w\- ]`)
)

// pages are the README and everything below docs, by their path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(text)
	}
	read("README.md")
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(filepath.Join("docs", path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPages_NameTestsThatExist(t *testing.T) {
	t.Parallel()
	named := 0
	for path, text := range pages(t) {
		for _, match := range namedTest.FindAllStringSubmatch(text, -1) {
			named++
			name, folder := match[1], match[2]
			if folder == "" {
				continue // a name that several packages have
			}
			files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			exists := false
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				exists = exists || strings.Contains(string(source), "\nfunc "+name+"(")
			}
			if !exists {
				t.Errorf("%s: there is no %s in %s", path, name, folder)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d tests are named", named)
	}
}

func TestPages_LinkToWhatExists(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for path, text := range all {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
				continue
			}
			if anchor != "" && !hasAnchor(all[to], anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, match[1])
			}
		}
	}
}

// hasAnchor reports whether a page has a heading with this anchor.
func hasAnchor(page, anchor string) bool {
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		made := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		if made == anchor {
			return true
		}
	}
	return false
}
