package main

import (
	"slices"
	"strings"
	"testing"
)

const changelog = `# Changelog

## [Unreleased]

### Added
- A thing ([Page](docs/page.md)). It is described further.

### Fixed
- A fault.
  Its second line.

## [0.1.0]
The first release.

### Removed
- Something.
`

func TestSection_HasTheChangesOfItsVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]change{
		"v0.2.0-rc.1": {{"added", "A thing (Page)."}, {"fixed", "A fault."}},
		"v0.1.0":      {{"removed", "Something."}},
	} {
		if got, err := section(changelog, version); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", version, got, err)
		}
	}
	for text, want := range map[string]string{
		changelog:                             "no section [9.0.0]",
		"## [9.0.0]\n\n### Improved\n- It.\n": `line 3 of CHANGELOG.md: "### Improved" is none of`,
		"## [9.0.0]\n\n- It.\n":               "line 3 of CHANGELOG.md has no heading",
	} {
		if got, err := section(text, "v9.0.0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestDigests_RejectOtherLines(t *testing.T) {
	t.Parallel()
	operator := "docker.io/mediastack/operator:v1.0.0@sha256:" + strings.Repeat("a", 64) + "\n"
	runtime := strings.Replace(operator, "operator", "runtime", 1)
	byName, registry, err := digests(operator + runtime)
	if err != nil || registry != "docker.io" || len(byName) != 2 {
		t.Errorf("%v, %q, %v", byName, registry, err)
	}
	for _, list := range []string{"", operator, operator + "mediastack/runtime", strings.ReplaceAll(operator+runtime, "@sha256", "@md5")} {
		if _, _, err := digests(list); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
}
