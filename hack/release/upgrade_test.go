package main

import (
	"strings"
	"testing"
)

func TestUpgrade_IsFromTheMinorVersionBefore(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.1.0]\n\n## [1.0.1]\n\n## [1.0.0]\n\n## [0.9.1]\n\n## [0.9.0]\n\n## [0.8.0]\n"
	for version, want := range map[string]upgrade{
		"v0.8.0":      {},
		"v0.9.0":      {"v0.8.0", ">=0.8.0 <0.9.0"},
		"v0.9.1":      {"v0.9.0", ">=0.8.0 <0.9.1"},
		"v1.0.0":      {"v0.9.1", ">=0.9.0 <1.0.0"},
		"v1.0.1":      {"v1.0.0", ">=0.9.0 <1.0.1"},
		"v1.1.0":      {"v1.0.1", ">=1.0.0 <1.1.0"},
		"v1.2.0-rc.1": {"", ">=1.1.0 <1.2.0-rc.1"},
		// A correction of an older minor version, when newer ones are out.
		"v0.9.2": {"v0.9.1", ">=0.8.0 <0.9.2"},
	} {
		if got, err := upgradeTo(changelog, version); err != nil || got != want {
			t.Errorf("%s: %+v, %v, not %+v", version, got, err, want)
		}
	}
	for changelog, want := range map[string]string{
		"## [0.1.0]\n## [0.2.0]\n": "[0.2.0] of CHANGELOG.md is below [0.1.0]",
		"## [first]\n":             "the section [first] of CHANGELOG.md",
	} {
		if got, err := upgradeTo(changelog, "v1.0.0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", changelog, got, err)
		}
	}
}
