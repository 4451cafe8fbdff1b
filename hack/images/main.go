// Command images builds the container images of mediastack without a container engine. make
// images writes them as OCI archives, and images/*.Dockerfile write the same root file systems
// inside of a container build.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

func main() {
	var command struct {
		Build    buildCommand    `cmd:"" help:"Write each image as an OCI archive, with its software bill of materials (SPDX)."`
		Index    indexCommand    `cmd:"" help:"Write each image as an OCI archive of all architectures that were built, and the list of both with their digests."`
		Root     rootCommand     `cmd:"" help:"Write the root file system of an image to a folder."`
		Licenses licensesCommand `cmd:"" help:"Write a program and the licenses of what it links to a folder."`
		Module   moduleCommand   `cmd:"" help:"Write a Go module as the files of a module proxy."`
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed := kong.Parse(&command, kong.Name("images"), kong.Description("Builds the container images of mediastack."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	parsed.FatalIfErrorf(parsed.Run())
}

// source is where the images are built from.
type source struct {
	Bin     string `default:"bin" type:"existingdir" help:"Folder of the programs that make build wrote."`
	License string `default:"LICENSE" type:"existingfile" help:"License of mediastack."`
	Root    string `default:"/" type:"existingdir" help:"Folder of the packages of Debian: / of this machine, or what hack/sysroot.sh has written for another architecture."`
	Arch    string `help:"Architecture of the programs and of that folder, amd64 or arm64; that of this machine if empty."`
	Viewer  string `default:"runtime/internal/apidocs/swagger-ui" type:"existingdir" help:"Folder of the vendored API reference, whose licenses are copied."`
}

// root returns the folder of the packages.
func (s source) root() rootFolder { return rootFolder(cmp.Or(s.Root, "/")) }

// architecture returns that of the image.
func (s source) architecture() string { return cmp.Or(s.Arch, runtime.GOARCH) }

// buildCommand writes the images.
type buildCommand struct {
	source
	Version  string `required:"" help:"Version of the images, which is their tag."`
	Revision string `required:"" help:"Commit that the programs were built from."`
	Created  int64  `required:"" help:"Time of that commit, in seconds since 1970: the images have it as their time, so that they can be reproduced."`
	Out      string `default:"dist" type:"path" help:"Folder of the archives."`
}

// Run builds the images and prints their digests.
func (c *buildCommand) Run(ctx context.Context) error {
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, name := range imageNames {
		contents, err := collect(ctx, name, c.source)
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		built, err := newImage(contents, release{version: c.Version, revision: c.Revision, created: time.Unix(c.Created, 0).UTC()})
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		file := filepath.Join(c.Out, fmt.Sprintf("mediastack-%s-%s-linux-%s", name, c.Version, c.architecture()))
		if err := built.writeSBOM(file + ".spdx.json"); err != nil {
			return err
		}
		if err := built.writeArchive(file + ".tar"); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%.1f MB unpacked\t%s.tar\n", built.reference, built.digest, float64(contents.size())/1e6, file)
	}
	return table.Flush()
}

// rootCommand writes a root file system.
type rootCommand struct {
	source
	Image  string `arg:"" enum:"operator,runtime" help:"operator or runtime."`
	Folder string `arg:"" type:"path" help:"Folder to write to. It must be empty or missing."`
}

// Run writes the root file system.
func (c *rootCommand) Run(ctx context.Context) error {
	contents, err := collect(ctx, c.Image, c.source)
	if err != nil {
		return err
	}
	return writeFolder(c.Folder, contents.base, contents.programs)
}

// licensesCommand writes a program and its licenses.
type licensesCommand struct {
	source
	Program string `arg:"" type:"existingfile" help:"Program to copy."`
	Folder  string `arg:"" type:"path" help:"Folder to write to. It must be empty or missing."`
}

// Run writes the folder.
func (c *licensesCommand) Run(ctx context.Context) error {
	files := tree{}
	files.file(filepath.Base(c.Program), c.Program, 0o755)
	files.file("LICENSE", c.License, 0o644)
	modules, err := modulesOf(ctx, c.Program)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := m.addLicenses(files, "licenses"); err != nil {
			return err
		}
	}
	return writeFolder(c.Folder, files)
}
