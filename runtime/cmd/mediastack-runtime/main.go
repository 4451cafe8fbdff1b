// Command mediastack-runtime serves the tenants' interfaces (serve), removes what is
// over (purge), proves that rows and buckets agree (check) and brings the database
// schema up to date (migrate). It only wires: configuration in, parts joined, run, shut down.
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

	"mediastack.dev/runtime/redact"
)

// version is set by the linker.
var version = ""

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitActionRequired is of the purge and the check: they reached their end, and something needs attention.
	exitActionRequired = 3
)

type command struct {
	Log     logConfig        `embed:""`
	Version kong.VersionFlag `help:"Print the version and leave."`

	Serve   serveCommand   `cmd:"" help:"Serve REST, TUS, MCP and logins until SIGTERM or SIGINT."`
	Purge   purgeCommand   `cmd:"" help:"Run one pass of the purge and print its summary as a line of JSON. Exits with 3 when something needs attention."`
	Check   checkCommand   `cmd:"" help:"Compare an account's rows and counters with its bucket, print what differs as lines of JSON and a summary last. Exits with 3 when something needs attention, or was found without --repair."`
	Migrate migrateCommand `cmd:"" help:"Bring the database schema up to date, and print what was applied."`
}

// logConfig says how to log, on standard error.
type logConfig struct {
	LogFormat string     `env:"SERVICE_LOG_FORMAT" enum:"json,text" default:"json" help:"Form of the log: json or text."`
	LogLevel  slog.Level `env:"SERVICE_LOG_LEVEL" default:"INFO" help:"Least level that is logged: DEBUG, INFO, WARN or ERROR."`
}

func (c logConfig) logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: redact.Attr}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(to, options))
	}
	return slog.New(slog.NewJSONHandler(to, options))
}

// streams are where a command writes.
type streams struct {
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr}))
}

// exit is a command's wish for an exit code of its own.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usage is a wrong configuration.
type usage struct{ error }

func run(ctx context.Context, args []string, io streams) int {
	var cli command
	left := -1
	parser, err := kong.New(&cli,
		kong.Name("mediastack-runtime"),
		kong.Description("Stores and serves the media of mediastack's tenants. Every flag has an environment name; prefer those for secrets."),
		kong.Vars{"version": versionText()},
		kong.Writers(io.out, io.err),
		kong.Exit(func(code int) { left = code; panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	)
	if err != nil {
		return fail(io, exitFailed, err)
	}
	parsed, err := parse(parser, args)
	switch {
	case left >= 0:
		return left
	case err != nil:
		return fail(io, exitUsage, err)
	}
	log := cli.Log.logger(io.err)
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(log, io)
	var code exit
	var wrong usage
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &wrong):
		return fail(io, exitUsage, err)
	}
	return fail(io, exitFailed, err)
}

// parse comes back also when --help and --version want to leave.
func parse(parser *kong.Kong, args []string) (parsed *kong.Context, err error) {
	defer func() {
		if left := recover(); left != nil {
			if _, ok := left.(exit); !ok {
				panic(left)
			}
		}
	}()
	return parser.Parse(args)
}

func fail(io streams, code int, err error) int {
	_, _ = fmt.Fprintf(io.err, "mediastack-runtime: %v\n", err)
	return code
}

// versionText is the linker's word, else the module's.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
