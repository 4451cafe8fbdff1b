package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
		return nil, fmt.Errorf("CHANGELOG.md has no section [%s]", name)
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
