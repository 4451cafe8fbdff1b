// Command mediastack-operator reconciles MediaAccount and MediaSettings objects: it watches the
// Kubernetes API and writes the desired state to PostgreSQL and S3.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"mediastack.dev/controllers/operator"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = "development"

// exitUsage is the exit status of an invalid command line; a later failure is 1.
const exitUsage = 2

// flags are the command line; every flag has an environment variable.
type flags struct {
	Operator operator.Config    `embed:""`
	Database postgres.Config    `embed:""`
	S3       objectstore.Config `embed:"" prefix:"s3-"`

	Kubeconfig string     `env:"KUBECONFIG" help:"Kubeconfig file; the pod's service account if empty."`
	LogFormat  string     `env:"SERVICE_LOG_FORMAT" enum:"json,text" default:"json" help:"Log format: json or text."`
	LogLevel   slog.Level `env:"SERVICE_LOG_LEVEL" default:"INFO" help:"Minimum log level: DEBUG, INFO, WARN or ERROR."`

	Version kong.VersionFlag `help:"Show the version and exit."`
}

func main() {
	var options flags
	kong.Parse(&options,
		kong.Name("mediastack-operator"),
		kong.Description("Reconciles MediaAccount and MediaSettings objects."),
		kong.Vars{"version": version},
		kong.Exit(exit),
	)
	log := logger(options, os.Stderr)
	setGlobalLoggers(log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, options, log); err != nil {
		fmt.Fprintln(os.Stderr, "mediastack-operator:", err)
		os.Exit(1)
	}
}

// exit ends the program. An error of kong is one of usage.
func exit(status int) {
	if status != 0 {
		status = exitUsage
	}
	os.Exit(status)
}

// run builds the operator and runs it until ctx ends.
func run(ctx context.Context, options flags, log *slog.Logger) error {
	kube, err := kubeConfig(options.Kubeconfig)
	if err != nil {
		return err
	}
	database, err := postgres.Open(ctx, options.Database)
	if err != nil {
		return err
	}
	defer database.Close()
	buckets, err := objectstore.New(options.S3)
	if err != nil {
		return err
	}
	manager, err := operator.New(ctx, kube, options.Operator, operator.Deps{
		Accounts: database, Settings: database, Buckets: buckets, Runtimes: database, Installation: database, Markers: buckets, Now: time.Now, Log: log,
	})
	if err != nil {
		return err
	}
	log.Info("starting", "version", version)
	return manager.Start(ctx)
}

// logger returns a logger for the format and level in options.
func logger(options flags, out io.Writer) *slog.Logger {
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
