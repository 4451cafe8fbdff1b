// Command mediastack-runtime serves the API of tenants (serve), removes expired data
// (purge), checks that rows and buckets are consistent (check), ends the hold after a restore
// (resume-after-restore), migrates the database schema (migrate), checks what an installation
// needs (preflight) and makes its secrets (secrets init). It only wires components together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"mediastack.dev/runtime/environment"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/redact"
)

// version is set by the linker.
var version = ""

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitActionRequired is returned by purge and check, if they completed and an operator
	// must act.
	exitActionRequired = 3
)

type command struct {
	Log     logConfig        `embed:""`
	Version kong.VersionFlag `help:"Print the version and exit."`

	Serve   serveCommand   `cmd:"" help:"Serve REST, TUS, MCP and logins until SIGTERM or SIGINT."`
	Purge   purgeCommand   `cmd:"" help:"Run one pass of the purge and print its summary as a line of JSON. Exits with 3 if an operator must act."`
	Check   checkCommand   `cmd:"" help:"Compare an account's rows and counters with its bucket, print differences as lines of JSON, then a summary. Exits with 3 if an operator must act, or if there are differences without --repair."`
	Resume  resumeCommand  `cmd:"" name:"resume-after-restore" help:"After the database was restored or copied: report what that did, as lines of JSON; with --confirm end the hold."`
	Secrets secretsCommand `cmd:"" help:"Make secrets."`

	Preflight preflightCommand `cmd:"" help:"Check the database, the object store, the mail server and the base URL, and print what works and what is missing. Takes the settings of serve. Exits with 3 if something is missing."`

	ServerJSON serverJSONCommand `cmd:"" name:"server-json" help:"Print the server.json of the service, for registries of MCP servers. Takes the settings of serve that it follows from, and reaches no server."`

	Migrate migrateCommand `cmd:"" help:"Migrate the database schema, and log the applied migrations."`
}

// logConfig configures the log, which goes to standard error.
type logConfig struct {
	LogFormat string     `env:"SERVICE_LOG_FORMAT" enum:"json,text" default:"json" help:"Format of the log: json or text."`
	LogLevel  slog.Level `env:"SERVICE_LOG_LEVEL" default:"INFO" help:"Minimum level that is logged: DEBUG, INFO, WARN or ERROR."`
}

func (c logConfig) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: redact.Attr}
	if c.LogFormat == "text" {
		return slog.New(httpapi.LogHandler{Handler: slog.NewTextHandler(w, options)})
	}
	return slog.New(httpapi.LogHandler{Handler: slog.NewJSONHandler(w, options)})
}

// stdio are the outputs of a command.
type stdio struct {
	out, err io.Writer
}

func main() {
	setGC()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], stdio{out: os.Stdout, err: os.Stderr}))
}

// exitCode is the error of a command that sets the exit code.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is an invalid configuration.
type usageError struct{ error }

func run(ctx context.Context, args []string, io stdio) int {
	var cli command
	requested := -1
	parser, err := kong.New(&cli,
		kong.Name("mediastack-runtime"),
		kong.Description("Stores and serves the media of mediastack's tenants. Every flag has an environment name; prefer those for secrets."),
		kong.Vars{"version": versionText()},
		kong.Writers(io.out, io.err),
		kong.Exit(func(code int) { requested = code; panic(exitCode(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	)
	if err != nil {
		return fail(io, exitFailed, err)
	}
	parsed, err := parse(parser, args)
	misspelled := environment.Check(os.Environ(), parser.Model)
	switch {
	case requested >= 0:
		return requested
	case misspelled != nil:
		return fail(io, exitUsage, misspelled)
	case err != nil:
		return fail(io, exitUsage, err)
	}
	log := cli.Log.logger(io.err)
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(log, io)
	var code exitCode
	var invalid usageError
	var held heldError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &invalid):
		return fail(io, exitUsage, err)
	case errors.As(err, &held):
		return fail(io, exitActionRequired, err)
	}
	return fail(io, exitFailed, err)
}

// parse parses args. It also returns after --help and --version, which kong exits for.
func parse(parser *kong.Kong, args []string) (parsed *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exitCode); !ok {
				panic(r)
			}
		}
	}()
	return parser.Parse(args)
}

func fail(io stdio, code int, err error) int {
	_, _ = fmt.Fprintf(io.err, "mediastack-runtime: %v\n", err)
	return code
}

// versionText returns the version that the linker set, or else that of the module.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
