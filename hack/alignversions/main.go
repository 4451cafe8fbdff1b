// Command alignversions raises the versions that the modules of pinned programs require to those of the product, of the
// dev stack and of Kubernetes, so that Go compiles each package once: one that differs in one dependency is another
// package to the build cache, with all that import it. `make tidy` runs it, and `make verify` fails if it changes a file.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"mediastack.dev/hack/setup"
)

// leaders are the modules whose versions the others follow, and each other: the highest one counts.
var leaders = []string{".", "hack/devservices", "hack/kube"}

// followers are the modules of programs that `make test` and `make verify` build.
var followers = []string{
	"hack/minio", "hack/tusd",
	"hack/tools/helm", "hack/tools/kube-score", "hack/tools/prometheus", "hack/tools/gotestsum",
	"hack/tools/controller-gen", "hack/tools/crd-ref-docs", "hack/tools/sqlc", "hack/tools/oapi-codegen", "hack/tools/golangci-lint",
}

// kept are the modules that a follower cannot take in a newer version, by a prefix of their paths.
var kept = map[string][]string{
	// It imports packages of k8s.io/api that 0.37 no longer has.
	"hack/tools/kube-score": {"k8s.io/", "sigs.k8s.io/"},
	// It does not compile with client_golang 1.25.
	"hack/tools/prometheus": {"github.com/prometheus/"},
}

// rounds is more than tidying needs until no requirement is raised: each round may bring new modules.
const rounds = 5

func main() {
	write := flag.Bool("write", false, "raise the versions in go.mod, and tidy; without it, they are printed and the exit status is 1 if there are any")
	flag.Parse()
	if err := run(*write); err != nil {
		fmt.Fprintln(os.Stderr, "alignversions:", err)
		os.Exit(1)
	}
}

func run(write bool) error {
	root, err := setup.RepoRoot()
	if err != nil {
		return err
	}
	found := 0
	for range rounds {
		differences, err := compare(root)
		if err != nil {
			return err
		}
		for _, d := range differences {
			fmt.Println(d)
		}
		found += len(differences)
		if len(differences) == 0 || !write {
			break
		}
		if err := raise(root, differences); err != nil {
			return err
		}
	}
	if found > 0 && !write {
		return errors.New("packages are compiled more than once: run `make tidy`")
	}
	return nil
}

// difference is a requirement that is older than that of a leader.
type difference struct {
	module, path, older, newer string
}

func (d difference) String() string {
	return fmt.Sprintf("%s requires %s %s: %s is in use elsewhere", d.module, d.path, d.older, d.newer)
}

// compare returns the requirements that are older than those of the leaders.
func compare(root string) ([]difference, error) {
	newest := map[string]string{}
	required := map[string]map[string]string{}
	for _, module := range slices.Concat(leaders, followers) {
		versions, err := requirements(filepath.Join(root, module))
		if err != nil {
			return nil, err
		}
		required[module] = versions
		if slices.Contains(leaders, module) {
			for path, v := range versions {
				if known, ok := newest[path]; !ok || less(known, v) {
					newest[path] = v
				}
			}
		}
	}
	var differences []difference
	for _, module := range slices.Concat(leaders, followers) {
		for _, path := range slices.Sorted(maps.Keys(required[module])) {
			v := required[module][path]
			newer, ok := newest[path]
			isKept := slices.ContainsFunc(kept[module], func(prefix string) bool { return strings.HasPrefix(path, prefix) })
			if ok && !isKept && less(v, newer) {
				differences = append(differences, difference{module, path, v, newer})
			}
		}
	}
	return differences, nil
}

func less(a, b string) bool {
	return version.MustParseSemantic(a).LessThan(version.MustParseSemantic(b))
}

// requirements returns the versions in the go.mod of a directory, by module.
func requirements(dir string) (map[string]string, error) {
	out, err := goCommand(dir, "mod", "edit", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, "go.mod"), err)
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	return versions, nil
}

// raise writes the newer versions, and tidies the modules.
func raise(root string, differences []difference) error {
	changed := map[string]bool{}
	for _, d := range differences {
		changed[d.module] = true
		if out, err := goCommand(filepath.Join(root, d.module), "mod", "edit", "-require="+d.path+"@"+d.newer).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", d, err, out)
		}
	}
	for _, module := range slices.Sorted(maps.Keys(changed)) {
		if out, err := goCommand(filepath.Join(root, module), "mod", "tidy").CombinedOutput(); err != nil {
			return fmt.Errorf("tidy %s: %w: %s", module, err, out)
		}
	}
	return nil
}

func goCommand(dir string, args ...string) *exec.Cmd {
	command := exec.Command("go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	return command
}
