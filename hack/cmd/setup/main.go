// Command setup prepares a machine and a checkout. The Makefile calls it.
//
//   - libvips, running, packages: install the Debian packages that the image worker is built with, that
//     the dev stack needs as well, and that the tests need as well
//   - kube, minio, tusd, tools, or the name of one pinned program: build pinned programs into the cache
//   - build, dev-services, dev-stack: build the programs of this repository into bin/
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"mediastack.dev/hack/setup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}

// purposes are the targets that install Debian packages.
var purposes = map[string]setup.Purpose{"libvips": setup.Building, "running": setup.Running, "packages": setup.Everything}

func run(ctx context.Context, targets []string) error {
	if len(targets) == 0 {
		return fmt.Errorf("name what to set up: packages, libvips, running, %s, %s, %s, %s, the name of one pinned program, build, dev-services or dev-stack", setup.GroupKube, setup.GroupMinIO, setup.GroupTusd, setup.GroupTools)
	}
	root, err := setup.RepoRoot()
	if err != nil {
		return err
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return err
	}
	bin := filepath.Join(root, "bin") + string(filepath.Separator)
	builder := setup.Builder{Root: root, Cache: cache, Out: os.Stderr}
	for _, target := range targets {
		switch target {
		case "build":
			if err := build(ctx, builder, bin); err != nil {
				return err
			}
			continue
		case "dev-services":
			if err := builder.Compile(ctx, setup.Target{
				Name: "the S3 store and the mail sink", Module: "hack/devservices", Output: filepath.Join(bin, "mediastack-devservices"), LDFlags: "-s -w", Packages: []string{"."},
			}); err != nil {
				return err
			}
			continue
		case "dev-stack":
			if err := builder.Compile(ctx, setup.Target{
				Name: "the program of the dev stack", Module: ".", Output: filepath.Join(bin, "mediastack-dev"), LDFlags: "-s -w", Packages: []string{"./hack/devstack"},
			}); err != nil {
				return err
			}
			continue
		case "libvips", "running", "packages":
			if err := setup.Packages(ctx, os.Stderr, purposes[target]); err != nil {
				return err
			}
			continue
		case setup.GroupKube:
			if os.Getenv(setup.AssetsEnv) != "" {
				if _, err := setup.FindKube(); err != nil {
					return err
				}
				continue
			}
		}
		programs, err := setup.Programs(target)
		if err != nil {
			return err
		}
		for _, program := range programs {
			if _, err := builder.Build(ctx, program); err != nil {
				return err
			}
		}
	}
	return nil
}

// build makes the programs that are shipped. All of them are pure Go but the image worker, which
// links libvips.
func build(ctx context.Context, builder setup.Builder, bin string) error {
	stamp := "-s -w -X main.version=" + cmp.Or(os.Getenv("VERSION"), "devel")
	if err := builder.Compile(ctx, setup.Target{
		Name: "the operator and the runtime", Module: ".", Output: bin, LDFlags: stamp, Packages: []string{"./controllers/cmd/...", "./runtime/cmd/mediastack-runtime"},
	}); err != nil {
		return err
	}
	if err := setup.Packages(ctx, os.Stderr, setup.Building); err != nil {
		return err
	}
	return builder.Compile(ctx, setup.Target{
		Name: "the image worker", Module: ".", Output: bin, LDFlags: stamp, Cgo: true, Packages: []string{"./runtime/cmd/mediastack-imaging"},
	})
}
