// Command mediastack-operator reconciles MediaAccount, RetainedMediaAccount, MediaSettings and MediaWebhook
// objects (run, the default), binds a database to another cluster (take-over), manages files in quarantine (quarantine) and prepares the
// removal of the operator (uninstall). It only wires components together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"mediastack.dev/runtime/environment"
	"mediastack.dev/runtime/redact"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = "development"

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitActionRequired is returned by take-over and uninstall, if they completed and an
	// administrator must act.
	exitActionRequired = 3
)

// errActionRequired ends a command with exitActionRequired. What to do was printed.
var errActionRequired = errors.New("an administrator must act")

// flags are the command line; every flag has an environment variable.
type flags struct {
	common

	Version kong.VersionFlag `help:"Show the version and exit."`

	Run        runCommand        `cmd:"" default:"withargs" help:"Reconcile until SIGTERM or SIGINT. This is the default."`
	TakeOver   takeOverCommand   `cmd:"" help:"Bind the installation in the database to this cluster. Without --confirm, print what that binds, and exit with 3 if it is needed."`
	Quarantine quarantineCommand `cmd:"" help:"List, release and delete the files in which a scanner has found something."`
	Uninstall  uninstallCommand  `cmd:"" help:"Close every account with its media retained, and delete the MediaAccounts, MediaSettings and MediaWebhooks. Without --confirm, print what that does, and exit with 3 if there are any."`
}

// common are the flags of every command.
type common struct {
	Kubeconfig string     `env:"KUBECONFIG" help:"Kubeconfig file; by default the pod's service account."`
	LogFormat  string     `env:"SERVICE_LOG_FORMAT" enum:"json,text" default:"json" help:"Format of the log: json or text."`
	LogLevel   slog.Level `env:"SERVICE_LOG_LEVEL" default:"INFO" help:"Minimum level that is logged: DEBUG, INFO, WARN or ERROR."`
}

func main() {
	var options flags
	parser := kong.Must(&options, parserOptions(kong.Exit(exit))...)
	parsed, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(environment.Check(os.Environ(), parser.Model))
	parser.FatalIfErrorf(environment.Explain(err, parser.Model))
	log := logger(options.common, os.Stderr)
	setGlobalLoggers(log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.BindTo(os.Stdout, (*io.Writer)(nil))
	switch err := parsed.Run(options.common, log); {
	case errors.Is(err, errActionRequired):
		os.Exit(exitActionRequired)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mediastack-operator:", redact.Text(err.Error()))
		os.Exit(exitFailed)
	}
}

// parserOptions returns the options of the parser, and more.
func parserOptions(more ...kong.Option) []kong.Option {
	return append([]kong.Option{
		kong.Name("mediastack-operator"),
		kong.Description("Reconciles MediaAccount, RetainedMediaAccount, MediaSettings and MediaWebhook objects."),
		kong.Vars{"version": version},
	}, more...)
}

// exit ends the program. An error of kong is one of usage.
func exit(status int) {
	if status != 0 {
		status = exitUsage
	}
	os.Exit(status)
}

// logger returns a logger for the format and level in options.
func logger(options common, out io.Writer) *slog.Logger {
	handler := &slog.HandlerOptions{Level: options.LogLevel}
	if options.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(out, handler))
	}
	return slog.New(slog.NewJSONHandler(out, handler))
}

// setGlobalLoggers sets the global loggers of controller-runtime and client-go. It is called
// once, before anything else runs: both read them without a lock.
func setGlobalLoggers(log *slog.Logger) {
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
}

// kubeConfig returns the file's configuration, or that of the pod's service account.
func kubeConfig(path string) (*rest.Config, error) {
	if path == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig is not set, and this is not a pod with a service account: %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return cfg, nil
}
