// Package setup finds the programs that the Makefile has installed and built for the dev stack, the
// benchmarks and the tests. The error for a missing one names the command to run.
package setup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CacheEnv names the environment variable that moves the cache directory.
const CacheEnv = "MEDIASTACK_CACHE"

// AssetsEnv names the environment variable that points to a directory which already has etcd,
// kube-apiserver and, if possible, kubectl, as setup-envtest installs them.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// KubernetesVersion is the version that hack/kube/go.mod pins.
const KubernetesVersion = "1.37.2"

// CacheDir is the directory that holds programs which take long to build. It outlives any checkout.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no cache directory (%w); set %s to a directory that can be written", err, CacheEnv)
	}
	return filepath.Join(dir, "mediastack"), nil
}

// RepoRoot is the directory of the checkout that the working directory lies in.
func RepoRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module mediastack.dev\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of mediastack", start)
		}
	}
}

// KubeTools are the programs of a small control plane. Kubectl is empty where KUBEBUILDER_ASSETS has
// none.
type KubeTools struct {
	Etcd      string
	APIServer string
	// Controllers is the program of hack/kube/controllers.
	Controllers string
	Kubectl     string
}

// FindKube finds the control plane's programs: in KUBEBUILDER_ASSETS when that is set, else in the
// cache, where the controllers are in both cases. The error says what to run.
func FindKube() (KubeTools, error) {
	dir, err := CacheDir()
	if err != nil {
		return KubeTools{}, err
	}
	dir = filepath.Join(dir, "kube", KubernetesVersion)
	tools := KubeTools{Controllers: filepath.Join(dir, "kube-controllers")}
	assets := os.Getenv(AssetsEnv)
	if assets != "" {
		dir = assets
	}
	tools.Etcd, tools.APIServer, tools.Kubectl = filepath.Join(dir, "etcd"), filepath.Join(dir, "kube-apiserver"), filepath.Join(dir, "kubectl")
	if assets != "" && executable(tools.Kubectl) != nil {
		tools.Kubectl = ""
	}
	for _, path := range []string{tools.Etcd, tools.APIServer, tools.Kubectl, tools.Controllers} {
		switch err := executable(path); {
		case path == "" || err == nil:
		case assets != "" && path != tools.Controllers:
			return KubeTools{}, fmt.Errorf("%s is set to %s, but %w", AssetsEnv, assets, err)
		default:
			return KubeTools{}, fmt.Errorf("%w; run `make kube`", err)
		}
	}
	return tools, nil
}

// FindMinIO finds the MinIO server that tests use as a second S3 store.
func FindMinIO() (string, error) { return findCached("minio") }

// FindMinIOUser finds the program that creates users of it.
func FindMinIOUser() (string, error) { return findCached("minio-user") }

// FindTusd finds the tusd server that benchmarks compare with.
func FindTusd() (string, error) { return findCached("tusd") }

// FindHelm finds the Helm that tests render and install the chart with.
func FindHelm() (string, error) { return findCached("helm") }

// FindPromtool finds the promtool that tests check alerts with.
func FindPromtool() (string, error) { return findCached("promtool") }

// FindPrometheus finds the Prometheus that tests run the queries of the dashboard in.
func FindPrometheus() (string, error) { return findCached("prometheus") }

// FindKubeScore finds kube-score.
func FindKubeScore() (string, error) { return findCached("kube-score") }

// findCached finds a program that a make target of its name builds into the cache.
func findCached(name string) (string, error) {
	dir, err := CacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bin", name)
	if err := executable(path); err != nil {
		return "", fmt.Errorf("%w; run `make %s`", err, name)
	}
	return path, nil
}

// BinEnv names the environment variable that points to the directory of our own built programs; by
// default they are in bin/ of the checkout.
const BinEnv = "MEDIASTACK_BIN"

// FindBinary finds a program of this repository that make has built.
func FindBinary(name string) (string, error) {
	dir := os.Getenv(BinEnv)
	if dir == "" {
		root, err := RepoRoot()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	if err := executable(path); err != nil {
		return "", fmt.Errorf("%w; run `make build dev-services dev-stack`, or set %s to the directory that has it", err, BinEnv)
	}
	return path, nil
}

// FindPostgres finds the directory of PostgreSQL's server programs, newest version first.
func FindPostgres() (string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	dirs = append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
	best, bestVersion := "", -1
	for _, dir := range dirs {
		if executable(filepath.Join(dir, "postgres")) != nil || executable(filepath.Join(dir, "initdb")) != nil {
			continue
		}
		version := 0
		_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(dir)), "%d", &version)
		if version > bestVersion {
			best, bestVersion = dir, version
		}
	}
	if best == "" {
		return "", errors.New("PostgreSQL's server programs (initdb, postgres) are not installed: on Debian and Ubuntu, run `apt-get install postgresql`")
	}
	return best, nil
}

// CephPrograms are the programs of a small Ceph cluster with S3 gateways.
type CephPrograms struct {
	Monitor, OSD, Gateway                     string
	Admin, GatewayAdmin, AuthTool, MonMapTool string
}

// FindCeph finds Ceph's programs on the PATH. They are optional: only the tests of other stores use
// them.
func FindCeph() (CephPrograms, error) {
	var found CephPrograms
	for name, path := range map[string]*string{
		"ceph-mon": &found.Monitor, "ceph-osd": &found.OSD, "radosgw": &found.Gateway,
		"ceph": &found.Admin, "radosgw-admin": &found.GatewayAdmin, "ceph-authtool": &found.AuthTool, "monmaptool": &found.MonMapTool,
	} {
		var err error
		if *path, err = exec.LookPath(name); err != nil {
			return CephPrograms{}, fmt.Errorf("%s is not installed: on Debian, run `apt-get install --no-install-recommends ceph-mon ceph-osd radosgw`", name)
		}
	}
	return found, nil
}

// executable returns in one sentence why a path is not a program that can be run.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is missing", path)
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not a program", path)
	}
	return nil
}
