//go:build cgo

// Command mediastack-imaging is the image worker: it creates thumbnails and WebP
// conversions. The runtime starts it, sends it one job after another
// (internal/imaging/protocol) and stops it; it is not meant for interactive use. It is the
// only program that links libvips, and applies a sandbox before the first job, which
// contains a decoder that a hostile file compromises.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/sandbox"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// version is set by the linker.
var version = ""

// Exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 4 // a job exceeded its timeout, and the runtime did not kill the worker
)

type command struct {
	Memory  uint64           `default:"2147483648" help:"Address space, in bytes, that jobs may use. 0 = no limit."`
	Version kong.VersionFlag `help:"Print the version and exit."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, in io.Reader, out, log io.Writer) int {
	var cli command
	parser, err := kong.New(&cli, kong.Name("mediastack-imaging"),
		kong.Description("Image worker of mediastack-runtime: reads jobs from standard input and writes derivatives to standard output. It exits with 0 at the end of its input."),
		kong.Vars{"version": versionText()}, kong.Writers(out, log), kong.Exit(os.Exit))
	if err != nil {
		return fail(log, exitFailed, err)
	}
	if _, err := parser.Parse(args); err != nil {
		return fail(log, exitUsage, err)
	}
	if err := vips.Start(); err != nil {
		return fail(log, exitFailed, err)
	}
	applied, denied := sandbox.Apply(sandbox.Limits{Memory: cli.Memory})
	if len(denied) > 0 {
		_, _ = fmt.Fprintf(log, "mediastack-imaging: running without all layers of the sandbox: %v\n", errors.Join(denied...))
	}
	worker := newWorker(in, out)
	if err := worker.handshake(layersOf(applied)); err != nil {
		return fail(log, exitFailed, err)
	}
	if err := worker.serve(); err != nil {
		return fail(log, exitFailed, err)
	}
	return 0
}

// layersOf returns the layers in effect, as the handshake has them.
func layersOf(applied sandbox.Applied) protocol.Layers {
	var layers protocol.Layers
	for _, l := range []struct {
		applied bool
		layer   protocol.Layers
	}{{applied.Limits, protocol.LayerLimits}, {applied.Privileges, protocol.LayerPrivileges}, {applied.Syscalls, protocol.LayerSyscalls}} {
		if l.applied {
			layers |= l.layer
		}
	}
	return layers
}

func fail(log io.Writer, code int, err error) int {
	_, _ = fmt.Fprintf(log, "mediastack-imaging: %v\n", err)
	return code
}

// versionText returns the version that the linker set, or else that of the module, and the
// version of libvips.
func versionText() string {
	own := version
	if info, ok := debug.ReadBuildInfo(); own == "" && ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		own = info.Main.Version
	}
	if own == "" {
		own = "devel"
	}
	return own + " (libvips " + vips.Version + ")"
}
