// Command presetpictures is the program behind `make preset-pictures`: it makes the pictures and the tables of
// docs/guides/image-presets-gallery.md with a dev stack of its own, as a user of presets does.
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

const (
	// page and folder are the page and the pictures on it, from the root of the repository.
	page   = "docs/guides/image-presets-gallery.md"
	folder = "docs/pictures"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "presetpictures:", err)
		os.Exit(1)
	}
}

// run makes all pictures, and then writes them and the page.
func run(ctx context.Context) (err error) {
	root, err := setup.RepoRoot()
	if err != nil {
		return err
	}
	files, err := makeFiles(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(root, page)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), files)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := writeFiles(filepath.Join(root, folder), files); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
		return err
	}
	total := 0
	for _, file := range files {
		total += len(file.data)
	}
	fmt.Printf("%d pictures of %d bytes are in %s, and their tables in %s\n", len(files), total, folder, page)
	return nil
}

// writeFiles replaces the pictures of a folder.
func writeFiles(folder string, files map[string]file) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, file := range files {
		if err := os.WriteFile(filepath.Join(folder, name), file.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeFiles starts a stack, makes the pictures with it and stops it.
func makeFiles(ctx context.Context) (files map[string]file, err error) {
	s, err := startStack(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := s.stop(); err == nil {
			err = stopErr
		}
	}()
	if err := s.declare(ctx); err != nil {
		return nil, err
	}
	return s.pictures(ctx)
}
