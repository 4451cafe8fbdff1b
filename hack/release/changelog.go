package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

const maxVersion = 63 // bytes of a label, which has the version

// released is the form of a version: a semantic version after a v, without build metadata, which tags of images cannot have.
var released = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?$`)

// checkCommand says what is missing for a release.
type checkCommand struct {
	Version   string `arg:"" help:"Version of the release."`
	Changelog string `default:"CHANGELOG.md" type:"existingfile" help:"The changelog."`
}

// Run fails if something is missing.
func (c *checkCommand) Run() error {
	if !released.MatchString(c.Version) || len(c.Version) > maxVersion {
		return fmt.Errorf("VERSION must be a semantic version after a v, such as v0.1.0 or v0.2.0-rc.1, not %q: make release VERSION=v0.1.0", c.Version)
	}
	text, err := os.ReadFile(c.Changelog)
	if err != nil {
		return err
	}
	_, err = section(string(text), c.Version)
	return err
}

// change is an entry of the changelog, as Artifact Hub shows it.
type change struct {
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

var (
	heading = regexp.MustCompile(`^## \[([^\]]+)\]`)
	link    = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)
	// kinds are the headings of Keep a Changelog, and the kinds of Artifact Hub.
	kinds = map[string]string{"Added": "added", "Changed": "changed", "Deprecated": "deprecated", "Removed": "removed", "Fixed": "fixed", "Security": "security"}
)

// section returns the changes of a version. A pre-release has those of the section Unreleased.
func section(text, version string) ([]change, error) {
	name := strings.TrimPrefix(version, "v")
	if strings.Contains(name, "-") {
		name = "Unreleased"
	}
	lines := strings.Split(text, "\n")
	at := slices.IndexFunc(lines, func(line string) bool {
		found := heading.FindStringSubmatch(line)
		return found != nil && found[1] == name
	})
	if at < 0 {
		place := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "## [Unreleased]") })
		if place < 0 {
			return nil, fmt.Errorf("CHANGELOG.md has no section [%s], and no section [Unreleased] below which it would go", name)
		}
		return nil, fmt.Errorf("CHANGELOG.md has no section [%s]: write the line \"## [%s]\" and an empty line after line %d, below \"## [Unreleased]\", so that what is unreleased becomes this version", name, name, place+2)
	}
	var found []change
	kind := ""
	for number, line := range lines[at+1:] {
		switch {
		case heading.MatchString(line):
			return found, nil
		case strings.HasPrefix(line, "### "):
			var ok bool
			if kind, ok = kinds[strings.TrimPrefix(line, "### ")]; !ok {
				return nil, fmt.Errorf("line %d of CHANGELOG.md: %q is none of Added, Changed, Deprecated, Removed, Fixed and Security", at+number+2, line)
			}
		case strings.HasPrefix(line, "- "):
			if kind == "" {
				return nil, fmt.Errorf("line %d of CHANGELOG.md has no heading such as \"### Added\" above it", at+number+2)
			}
			found = append(found, change{Kind: kind, Description: summary(line[2:])})
		}
	}
	return found, nil
}

// summary is the first sentence of an entry, without links, since they are relative to the repository.
func summary(entry string) string {
	entry = link.ReplaceAllString(entry, "$1")
	if first, _, found := strings.Cut(entry, ". "); found {
		entry = first + "."
	}
	return entry
}

var errNoDigest = errors.New("the list of images has no line for it")

// digests returns the digests of images.txt by the name of the image, and the registry that it names.
func digests(list string) (byName map[string]string, registry string, err error) {
	byName = map[string]string{}
	for line := range strings.Lines(list) {
		reference, digest, ok := strings.Cut(strings.TrimSpace(line), "@")
		prefix, rest, isOurs := strings.Cut(reference, "/mediastack/")
		name, _, tagged := strings.Cut(rest, ":")
		if !ok || !isOurs || !tagged || !strings.HasPrefix(digest, "sha256:") {
			return nil, "", fmt.Errorf("the list of images has the line %q", line)
		}
		byName[name], registry = digest, prefix
	}
	for _, name := range images {
		if byName[name] == "" {
			return nil, "", fmt.Errorf("%s: %w", name, errNoDigest)
		}
	}
	return byName, registry, nil
}
