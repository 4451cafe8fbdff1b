package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	progressEvery = 5 * time.Second
	// Added to a build's scheduling priority, so that the machine stays usable meanwhile.
	buildNiceness = 10
	kubeFolder    = "kube/" + KubernetesVersion
)

// Program is one program that is built from a module under hack/, whose go.mod and go.sum pin it.
type Program struct {
	// Name is the name of the executable.
	Name string
	// Module is the module's directory, from the root of the repository.
	Module string
	// Package is the import path of its main package.
	Package string
	// Folder is where the executable goes, below the cache directory.
	Folder string
	// LDFlags are the linker's flags.
	LDFlags string
}

// Groups of programs by the name that the setup command knows them by.
const (
	GroupKube  = "kube"
	GroupMinIO = "minio"
	GroupTusd  = "tusd"
	GroupTools = "tools"
)

// Programs lists the programs of a group, or the one program of that name.
func Programs(name string) ([]Program, error) {
	kube := []Program{
		kubeProgram("kube-apiserver"),
		kubeProgram("kubectl"),
		{Name: "etcd", Module: "hack/etcd", Package: "go.etcd.io/etcd/server/v3", Folder: kubeFolder, LDFlags: "-s -w"},
	}
	minio := []Program{
		{Name: "minio", Module: "hack/minio", Package: "github.com/minio/minio", Folder: "bin", LDFlags: "-s -w"},
	}
	tusd := []Program{
		{Name: "tusd", Module: "hack/tusd", Package: "github.com/tus/tusd/v2/cmd/tusd", Folder: "bin", LDFlags: "-s -w"},
	}
	tools := []Program{
		toolProgram("controller-gen", "sigs.k8s.io/controller-tools/cmd/controller-gen"),
		toolProgram("sqlc", "github.com/sqlc-dev/sqlc/cmd/sqlc"),
		toolProgram("oapi-codegen", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen"),
		toolProgram("golangci-lint", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"),
	}
	// It needs a database on the network, so it is built only when it is asked for by name.
	vulncheck := toolProgram("govulncheck", "golang.org/x/vuln/cmd/govulncheck")
	switch name {
	case GroupKube:
		return kube, nil
	case GroupMinIO:
		return minio, nil
	case GroupTusd:
		return tusd, nil
	case GroupTools:
		return tools, nil
	}
	for _, program := range slices.Concat(kube, minio, tusd, tools, []Program{vulncheck}) {
		if program.Name == name {
			return []Program{program}, nil
		}
	}
	return nil, fmt.Errorf("there is no pinned program or group %q", name)
}

// kubeProgram carries the version stamps without which a control plane would call itself v0.0.0.
func kubeProgram(name string) Program {
	major, rest, _ := strings.Cut(KubernetesVersion, ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, stamp := range []string{
			"gitVersion=v" + KubernetesVersion, "gitMajor=" + major, "gitMinor=" + minor,
			"gitTreeState=clean", "gitCommit=gomod", "buildDate=2026-01-01T00:00:00Z",
		} {
			flags += " -X " + pkg + "." + stamp
		}
	}
	return Program{Name: name, Module: "hack/kube", Package: "k8s.io/kubernetes/cmd/" + name, Folder: kubeFolder, LDFlags: flags}
}

func toolProgram(name, pkg string) Program {
	return Program{Name: name, Module: "hack/tools/" + name, Package: pkg, Folder: "bin", LDFlags: "-s -w"}
}

// Builder builds pinned programs and prints its progress.
type Builder struct {
	// Root is the checkout whose modules pin the programs.
	Root string
	// Cache is the directory that the programs go into.
	Cache string
	// Out takes the progress lines.
	Out io.Writer
}

// Build makes sure that a program is in the cache in the version that its module pins, and returns
// its path. Two builders of the same program wait for each other, and the finished program appears
// at once or not at all.
func (b *Builder) Build(ctx context.Context, program Program) (string, error) {
	module := filepath.Join(b.Root, program.Module)
	stamp, err := stampOf(module, program)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(b.Cache, program.Folder)
	target := filepath.Join(folder, program.Name)
	stampFile := filepath.Join(folder, "."+program.Name+".stamp")
	if isBuilt(target, stampFile, stamp) {
		return target, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}

	unlock, err := b.lock(ctx, filepath.Join(folder, "."+program.Name+".lock"), program.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isBuilt(target, stampFile, stamp) {
		return target, nil
	}

	started := time.Now()
	temporary := fmt.Sprintf("%s.new-%d", target, os.Getpid())
	defer os.Remove(temporary)
	fmt.Fprintf(b.Out, "%s: building it, once, into %s\n", program.Name, folder)
	if err := b.Compile(ctx, Target{
		Name: program.Name, Module: program.Module, Output: temporary, LDFlags: program.LDFlags, Packages: []string{program.Package},
	}); err != nil {
		return "", err
	}
	// The stamp goes first and comes last: a crash between the two steps only causes a rebuild.
	if err := os.Remove(stampFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := os.Rename(temporary, target); err != nil {
		return "", err
	}
	if err := os.WriteFile(stampFile, []byte(stamp), 0o644); err != nil {
		return "", err
	}
	fmt.Fprintf(b.Out, "%s: built in %s\n", program.Name, time.Since(started).Round(time.Second))
	return target, nil
}

func isBuilt(target, stampFile, stamp string) bool {
	have, err := os.ReadFile(stampFile)
	return err == nil && string(have) == stamp && executable(target) == nil
}

// stampOf is a digest of everything that decides what a build makes.
func stampOf(module string, program Program) (string, error) {
	digest := sha256.New()
	fmt.Fprintln(digest, program.Package, program.LDFlags, runtime.Version(), runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("%s is not pinned: %w", program.Name, err)
		}
		digest.Write(content)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// lock waits for any other builder of the same program.
func (b *Builder) lock(ctx context.Context, path, name string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	printed := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !printed {
			fmt.Fprintf(b.Out, "%s: another build of it is under way; waiting for it\n", name)
			printed = true
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// buildEnv is the caller's environment less everything that could change what a pinned build makes.
func buildEnv(cgo bool) []string {
	enabled := "0"
	if cgo {
		enabled = "1"
	}
	return append(os.Environ(), "CGO_ENABLED="+enabled, "GOWORK=off", "GOFLAGS=", "GOOS=", "GOARCH=")
}

// Target is what a call of go build makes.
type Target struct {
	// Name is what progress lines call it.
	Name string
	// Module is the module's directory, from the root of the repository.
	Module string
	// Output is a file, or a directory that ends in a slash.
	Output string
	// LDFlags are the linker's flags.
	LDFlags string
	// Cgo lets it link C libraries; everything else is pure Go.
	Cgo bool
	// Packages are what to build, from the module's directory.
	Packages []string
}

// Compile builds a target. Nothing is printed when that takes less than a few seconds.
func (b *Builder) Compile(ctx context.Context, target Target) error {
	name, module := target.Name, filepath.Join(b.Root, target.Module)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", target.LDFlags, "-o", target.Output}
	cmd := exec.CommandContext(ctx, "go", append(args, target.Packages...)...)
	cmd.Dir = module
	cmd.Env = buildEnv(target.Cgo)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	defer reportProgress(b.Out, name+": building it")()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w", name, err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, buildNiceness)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("building %s was interrupted", name)
		}
		const keep = 10
		lines := strings.Split(strings.TrimSpace(output.String()), "\n")
		return fmt.Errorf("build %s in %s: %w: %s", name, module, err, strings.Join(lines[max(0, len(lines)-keep):], "; "))
	}
	return nil
}

// reportProgress prints every few seconds what is under way, and for how long, until stop is called.
func reportProgress(out io.Writer, what string) (stop func()) {
	started, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(out, "%s, %s so far\n", what, time.Since(started).Round(time.Second))
			}
		}
	}()
	return func() { close(done); <-ended }
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
