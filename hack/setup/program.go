package setup

import (
	"bufio"
	"bytes"
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
	"sync/atomic"
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
	// Module is the module's folder, from the root of the repository.
	Module string
	// Package is the import path of its main package.
	Package string
	// Folder is where the executable goes, below the cache folder.
	Folder string
	// LDFlags are the linker's flags.
	LDFlags string
}

// Groups of programs by the name that the setup command knows them by.
const (
	GroupKube  = "kube"
	GroupMinIO = "minio"
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
	tools := []Program{
		toolProgram("controller-gen", "sigs.k8s.io/controller-tools/cmd/controller-gen"),
		toolProgram("sqlc", "github.com/sqlc-dev/sqlc/cmd/sqlc"),
		toolProgram("oapi-codegen", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen"),
		toolProgram("golangci-lint", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"),
	}
	switch name {
	case GroupKube:
		return kube, nil
	case GroupMinIO:
		return minio, nil
	case GroupTools:
		return tools, nil
	}
	for _, program := range slices.Concat(kube, minio, tools) {
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

// Builder builds pinned programs and tells how far it is.
type Builder struct {
	// Root is the checkout whose modules pin the programs.
	Root string
	// Cache is the folder that the programs go into.
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
		return "", fmt.Errorf("make the cache folder: %w", err)
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
	if err := b.compile(ctx, program, module, temporary); err != nil {
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
	told := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			fmt.Fprintf(b.Out, "%s: another build of it is under way; waiting for it\n", name)
			told = true
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
func buildEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=", "GOARCH=")
}

func (b *Builder) compile(ctx context.Context, program Program, module, output string) error {
	fmt.Fprintf(b.Out, "%s: fetching its modules\n", program.Name)
	total, err := countPackages(ctx, module, program.Package)
	if err != nil {
		return err
	}

	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", program.LDFlags, "-o", output, program.Package)
	cmd.Dir = module
	cmd.Env = buildEnv()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w", program.Name, err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, buildNiceness)

	var compiled atomic.Int64
	finished := make(chan struct{})
	reporterDone := make(chan struct{})
	go func() {
		defer close(reporterDone)
		b.report(program.Name, total, &compiled, finished)
	}()
	messages := readBuildOutput(pipe, &compiled)
	err = cmd.Wait()
	close(finished)
	<-reporterDone
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("building %s was interrupted", program.Name)
		}
		return fmt.Errorf("build %s from %s: %w: %s", program.Name, program.Module, err, strings.Join(messages, "; "))
	}
	return nil
}

// report says every few seconds how far a build is.
func (b *Builder) report(name string, total int, compiled *atomic.Int64, finished <-chan struct{}) {
	started := time.Now()
	fmt.Fprintf(b.Out, "%s: building, up to %d packages to compile\n", name, total)
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-finished:
			return
		case <-ticker.C:
			fmt.Fprintf(b.Out, "%s: compiled %d of up to %d packages, %s so far\n",
				name, compiled.Load(), total, time.Since(started).Round(time.Second))
		}
	}
}

// readBuildOutput counts the package names that `go build -v` prints, and keeps the last lines that
// are none, which tell what went wrong.
func readBuildOutput(r io.Reader, compiled *atomic.Int64) []string {
	var messages []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
		case strings.ContainsAny(line, " :#\t"):
			if messages = append(messages, line); len(messages) > 10 {
				messages = messages[1:]
			}
		default:
			compiled.Add(1)
		}
	}
	return messages
}

func countPackages(ctx context.Context, module, pkg string) (int, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", pkg)
	cmd.Dir = module
	cmd.Env = buildEnv()
	var out, message bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &message
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return 0, errors.New("fetching modules was interrupted")
		}
		return 0, fmt.Errorf("fetch the modules of %s: %w: %s", pkg, err, lastLine(message.String()))
	}
	return bytes.Count(out.Bytes(), []byte("\n")), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
