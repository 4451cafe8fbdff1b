// Command setup prepares a machine: `setup packages` installs Debian packages, `setup kube minio
// tools` (or one program's name) builds pinned programs into the cache, `setup path` prints the
// folder of the built tools. The Makefile calls it.
package main

import (
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

func run(ctx context.Context, targets []string) error {
	if len(targets) == 0 {
		return fmt.Errorf("say what to set up: packages, %s, %s, %s, the name of one pinned program, or path", setup.GroupKube, setup.GroupMinIO, setup.GroupTools)
	}
	root, err := setup.RepoRoot()
	if err != nil {
		return err
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return err
	}
	builder := setup.Builder{Root: root, Cache: cache, Out: os.Stderr}
	for _, target := range targets {
		switch target {
		case "path":
			fmt.Println(filepath.Join(cache, "bin"))
			continue
		case "packages":
			if err := setup.Packages(ctx, os.Stderr); err != nil {
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
