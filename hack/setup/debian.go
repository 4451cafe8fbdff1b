package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const createClusterConf = "/etc/postgresql-common/createcluster.conf"

// Purpose is what Debian packages are needed for.
type Purpose int

// The purposes; each includes the ones before it.
const (
	// Building is what the image worker needs to be built and run.
	Building Purpose = iota
	// Running is what the dev stack, the benchmarks and the crash run need, too.
	Running
	// Everything is what the tests need, too.
	Everything
)

// debianPackage is a package and how to see that what it brings is there.
type debianPackage struct {
	name    string
	purpose Purpose
	found   func(context.Context) bool
}

var debianPackages = []debianPackage{
	{name: "gcc", purpose: Building, found: program("gcc")},
	{name: "libc6-dev", purpose: Building, found: file("/usr/include/stdlib.h")},
	{name: "pkg-config", purpose: Building, found: program("pkg-config")},
	{name: "libvips-dev", purpose: Building, found: library("vips >= 8.14")},
	{name: "postgresql", purpose: Running, found: func(context.Context) bool { _, err := FindPostgres(); return err == nil }},
	{name: "curl", purpose: Running, found: program("curl")}, // for the lines that the dev stack prints
	{name: "libvips-tools", purpose: Running, found: program("vips")},
	{name: "libimage-exiftool-perl", purpose: Everything, found: program("exiftool")},
	{name: "webp", purpose: Everything, found: program("webpinfo")},
	{name: "nodejs", purpose: Everything, found: program("node")},
	{name: "npm", purpose: Everything, found: program("npm")},
	{name: "chromium", purpose: Everything, found: program("chromium")},
}

func program(name string) func(context.Context) bool {
	return func(context.Context) bool { _, err := exec.LookPath(name); return err == nil }
}

func file(path string) func(context.Context) bool {
	return func(context.Context) bool { _, err := os.Stat(path); return err == nil }
}

func library(condition string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		return exec.CommandContext(ctx, "pkg-config", "--exists", condition).Run() == nil
	}
}

// Packages makes sure that the Debian packages are there which a purpose needs. As root on Debian
// or Ubuntu it installs what is missing; anywhere else its error says what to install.
func Packages(ctx context.Context, out io.Writer, purpose Purpose) error {
	missing := missingPackages(ctx, purpose)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return explain(missing)
	}
	names := make([]string, 0, len(missing))
	for _, p := range missing {
		names = append(names, p.name)
	}
	if slices.Contains(names, "postgresql") {
		if err := keepClusterFromStarting(); err != nil {
			return err
		}
	}
	started := time.Now()
	fmt.Fprintln(out, "Debian packages: installing", strings.Join(names, ", "))
	if err := aptGet(ctx, out, "update"); err != nil {
		return err
	}
	if err := aptGet(ctx, out, append([]string{"install", "-y", "--no-install-recommends"}, names...)...); err != nil {
		return err
	}
	fmt.Fprintf(out, "Debian packages: installed in %s\n", time.Since(started).Round(time.Second))
	return explain(missingPackages(ctx, purpose))
}

func missingPackages(ctx context.Context, purpose Purpose) []debianPackage {
	var missing []debianPackage
	for _, p := range debianPackages {
		if p.purpose <= purpose && !p.found(ctx) {
			missing = append(missing, p)
		}
	}
	return missing
}

// explain is the error that names what is missing.
func explain(missing []debianPackage) error {
	if len(missing) == 0 {
		return nil
	}
	names := make([]string, 0, len(missing))
	for _, p := range missing {
		names = append(names, p.name)
	}
	return fmt.Errorf("packages are missing: on Debian and Ubuntu, run `apt-get install %s` as root; elsewhere, install what has those programs and libraries (libvips 8.14 or newer)", strings.Join(names, " "))
}

// keepClusterFromStarting configures the postgresql package not to make and start a cluster of its own:
// the dev stack has a private one. A machine that has the file already keeps it as it is.
func keepClusterFromStarting() error {
	if err := os.MkdirAll("/etc/postgresql-common", 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(createClusterConf, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString("# Written by mediastack's set-up, which runs PostgreSQL clusters of its own.\ncreate_main_cluster = false\n")
	return errors.Join(err, file.Close())
}

func aptGet(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Options::=--force-confold"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	defer reportProgress(out, "Debian packages: apt-get "+args[0])()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, lastLine(string(output)))
	}
	return nil
}
