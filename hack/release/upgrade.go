package main

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// upgrade is from which versions the Operator Lifecycle Manager upgrades to a version.
type upgrade struct {
	replaces  string // the release before, with its v; none for the first one, and for pre-releases
	skipRange string // the versions from which no release between is needed
}

// upgradeTo returns the upgrade to a version, after the releases that are sections of the changelog.
//
// From each release of the minor version before it takes one step: these programs serve with the schema of the
// version (docs/guides/operate.md#upgrade). An older one goes there first, by what that release replaces.
func upgradeTo(changelog, version string) (upgrade, error) {
	to, err := semver.Parse(strings.TrimPrefix(version, "v"))
	if err != nil {
		return upgrade{}, fmt.Errorf("the version %s: %w", version, err)
	}
	var before []semver.Version // the newest first
	for line := range strings.Lines(changelog) {
		found := heading.FindStringSubmatch(line)
		if found == nil || found[1] == "Unreleased" {
			continue
		}
		one, err := semver.Parse(found[1])
		if err != nil {
			return upgrade{}, fmt.Errorf("the section [%s] of CHANGELOG.md: %w", found[1], err)
		}
		if len(before) > 0 && !one.LT(before[len(before)-1]) {
			return upgrade{}, fmt.Errorf("the section [%s] of CHANGELOG.md is below [%s], which is older", one, before[len(before)-1])
		}
		if one.LT(to) {
			before = append(before, one)
		}
	}
	if len(before) == 0 {
		return upgrade{}, nil
	}
	var path upgrade
	if len(to.Pre) == 0 {
		path.replaces = "v" + before[0].String()
	}
	minor := func(v semver.Version) string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }
	from := minor(to)
	for _, one := range before {
		if from = minor(one); from != minor(to) {
			break
		}
	}
	path.skipRange = fmt.Sprintf(">=%s.0 <%s", from, to)
	return path, nil
}
