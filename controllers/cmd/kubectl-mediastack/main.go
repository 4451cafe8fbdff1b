// Command kubectl-mediastack is a kubectl plugin for the custom resources of mediastack. It
// needs the rights of the user that its kubeconfig names, and nothing else of the cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// version is set by the linker.
var version = "development"

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitUnconfirmed is returned by purge without --confirm.
	exitUnconfirmed = 3
)

// requestTimeout is the timeout of a request to the API server.
const requestTimeout = 30 * time.Second

// errUnconfirmed ends purge without --confirm. What it would do was printed.
var errUnconfirmed = errors.New("nothing was changed: repeat the command with --confirm")

// flags are the command line.
type flags struct {
	access

	Version kong.VersionFlag `help:"Print the version and exit."`

	Status     statusCommand     `cmd:"" help:"List the MediaAccounts with reason and message, those that need attention first."`
	Retained   retainedCommand   `cmd:"" help:"List the retained accounts: those whose MediaAccount was deleted or vanished."`
	Restore    restoreCommand    `cmd:"" help:"Permit a MediaAccount to take over a retained account. The MediaAccount need not exist yet."`
	Purge      purgeCommand      `cmd:"" help:"Delete the media of a retained account permanently. Without --confirm, print what that deletes and exit with 3."`
	Rotate     rotateCommand     `cmd:"" help:"Issue new API keys for an account. The previous keys stay valid for spec.apiKeys.overlap."`
	Activity   activityCommand   `cmd:"" help:"List who did what in an account, and when, with the API key of its Secret. The account needs spec.journal."`
	Quarantine quarantineCommand `cmd:"" help:"List, release and delete the files in which a scanner has found something."`
	Webhook    webhookCommand    `cmd:"" help:"List MediaWebhooks, send test events, send events again, and show the last attempts."`
}

// access is how to reach the cluster, with the names that kubectl has for it.
type access struct {
	Kubeconfig string `help:"Kubeconfig file. By default as kubectl finds it: KUBECONFIG, or ~/.kube/config."`
	Context    string `help:"Context of the kubeconfig. By default the current one."`
	Namespace  string `short:"n" help:"Namespace. By default that of the context; for restore, the one that the account was in."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exited ends the parser after --help and --version.
type exited int

// run runs a command line and returns the exit code.
func run(ctx context.Context, args []string, out, log io.Writer) (code int) {
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case exited:
			code = int(ended)
		default:
			panic(ended) // a bug must not look like a success
		}
	}()
	var options flags
	parser, err := kong.New(&options, kong.Name("kubectl mediastack"), kong.Description("Manages the accounts of mediastack."),
		kong.Vars{"version": version}, kong.Writers(out, log), kong.Exit(func(status int) { panic(exited(status)) }))
	if err != nil {
		return fail(log, exitFailed, err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return fail(log, exitUsage, fmt.Errorf("%w (--help explains)", err))
	}
	cluster, err := options.connect()
	if err != nil {
		return fail(log, exitFailed, err)
	}
	cluster.log, cluster.kubectl = log, options.arguments()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.BindTo(out, (*io.Writer)(nil))
	switch err := parsed.Run(cluster); {
	case errors.Is(err, errUnconfirmed):
		return fail(log, exitUnconfirmed, err)
	case meta.IsNoMatchError(err):
		return fail(log, exitFailed, fmt.Errorf("this cluster has no mediastack: its custom resource definitions are missing (%w)", err))
	case err != nil:
		return fail(log, exitFailed, err)
	}
	return 0
}

func fail(log io.Writer, code int, err error) int {
	_, _ = fmt.Fprintln(log, "error:", err)
	return code
}

// cluster is a cluster and the namespace to work in.
type cluster struct {
	client.Client
	namespace string
	explicit  bool // the command line names the namespace
	now       func() time.Time
	log       io.Writer // notes that are no part of the output
	kubectl   []string  // the arguments with which kubectl reaches the cluster
}

// arguments returns the flags for kubectl.
func (a access) arguments() (flags []string) {
	if a.Kubeconfig != "" {
		flags = append(flags, "--kubeconfig="+a.Kubeconfig)
	}
	if a.Context != "" {
		flags = append(flags, "--context="+a.Context)
	}
	return flags
}

// connect reads the kubeconfig as kubectl does.
func (a access) connect() (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.Timeout, config.UserAgent = requestTimeout, "kubectl-mediastack/"+version
	config.QPS = -1 // a command has one request at a time; the limiter of client-go ends one that would wait for longer than its context
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	if a.Namespace != "" {
		namespace = a.Namespace
	}
	return &cluster{Client: c, namespace: namespace, explicit: a.Namespace != "", now: time.Now}, nil
}
