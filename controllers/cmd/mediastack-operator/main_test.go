package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/environment"
)

// logs holds what all the operators of this process log. One logger serves them all,
// as the global loggers may be set only once.
var (
	logs syncBuffer
	log  = logger(common{LogFormat: "json", LogLevel: slog.LevelInfo}, &logs)
)

func TestMain(m *testing.M) {
	setGlobalLoggers(log)
	testenv.Main(m)
}

// syncBuffer is a buffer that is safe for concurrent use: client-go may still log when
// a test reads the lines.
type syncBuffer = check.Buffer

// libvips belongs to the image worker, tenant HTTP to the runtime, and test helpers to tests.
func TestOperator_LinksNoImagingNoTenantHTTPAndNoTestHelper(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	must(t, err)
	for path := range strings.FieldsSeq(string(out)) {
		for _, unwanted := range []string{"h2non/bimg", "mediastack.dev/runtime/internal", "mediastack.dev/hack", "go-chi", "tusd"} {
			if strings.Contains(path, unwanted) {
				t.Errorf("the operator links %s", path)
			}
		}
	}
}

func parse(t *testing.T, args ...string) (flags, error) {
	t.Helper()
	options, _, err := parseCommand(t, args...)
	return options, err
}

// parseCommand also returns the selected command.
func parseCommand(t *testing.T, args ...string) (flags, *kong.Context, error) {
	t.Helper()
	var options flags
	parser, err := kong.New(&options, parserOptions(kong.Exit(func(int) { t.Fatal("the parser wants to exit") }))...)
	must(t, err)
	parsed, err := parser.Parse(args)
	return options, parsed, err
}

func TestFlags_HaveEnvironmentNamesAndDefaults(t *testing.T) {
	for name, value := range map[string]string{
		"SERVICE_BASE_URL": "https://media.example.org", "SERVICE_DATABASE_URL": "postgres://localhost/db", "SERVICE_S3_ENDPOINT": "https://s3.example.org",
		"SERVICE_S3_ACCESS_KEY": "key", "SERVICE_S3_SECRET_KEY": "secret", "SERVICE_HEALTH_LISTEN": ":9999",
	} {
		t.Setenv(name, value)
	}
	got, err := parse(t, "--leader-elect", "--bucket-check-interval=1m")
	must(t, err)
	o := got.Run.Operator
	if o.HealthListen != ":9999" || o.MetricsListen != ":8080" || !o.LeaderElect || o.BucketCheckInterval != time.Minute ||
		o.UsageInterval != 5*time.Minute || o.OutageGrace != 2*time.Minute || o.Concurrency != 8 || o.BucketPrefix != "media" || len(o.Namespaces) != 0 {
		t.Errorf("flags are %+v", o)
	}
	if got.Run.S3.Endpoint != "https://s3.example.org" || got.Run.Database.DatabaseURL != "postgres://localhost/db" {
		t.Errorf("stores are %+v, %+v", got.Run.S3, got.Run.Database)
	}
	if _, err := parse(t, "--log-format=xml"); err == nil {
		t.Error("an unknown log format is accepted")
	}
}

func TestFlags_MissingIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := parse(t); err == nil || !strings.Contains(err.Error(), "--base-url") {
		t.Errorf("got %v", err)
	}
}

func TestFlags_SelectTheCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--base-url=https://m.example.org --database-url=x --s3-endpoint=x --s3-access-key=x --s3-secret-key=x":     "run",
		"run --base-url=https://m.example.org --database-url=x --s3-endpoint=x --s3-access-key=x --s3-secret-key=x": "run",
		"take-over --database-url=x":           "take-over",
		"take-over --database-url=x --confirm": "take-over",
		"uninstall":                            "uninstall",
		"uninstall --check":                    "uninstall",
		"uninstall --confirm --log-level=WARN": "uninstall",
	} {
		if _, parsed, err := parseCommand(t, strings.Fields(line)...); err != nil || parsed.Command() != want {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"remove", "take-over", "uninstall --check --confirm", "uninstall now"} {
		if _, _, err := parseCommand(t, strings.Fields(line)...); err == nil {
			t.Errorf("%s is accepted", line)
		}
	}
}

// The operator starts with the permissions of its service account only, answers its probes,
// acquires the lease, and releases it at SIGTERM.
func TestOperator_RunsAndShutsDown(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t) // this operator reconciles all namespaces
	plane.Apply(kubetest.Manifests(t, "default/namespace.yaml", "rbac")...)
	health, metrics := testenv.FreePort(t), testenv.FreePort(t)
	access, database := testenv.S3(t), testenv.Postgres(t)
	options, err := parse(t,
		"--kubeconfig", plane.ServiceAccountKubeconfig("mediastack-system", "mediastack-operator"),
		"--pprof", "--leader-elect", "--leader-election-namespace", "mediastack-system",
		"--health-listen", "127.0.0.1:"+strconv.Itoa(health), "--metrics-listen", "127.0.0.1:"+strconv.Itoa(metrics),
		"--base-url", "https://media.example.org", "--database-url", database,
		"--s3-endpoint", access.Endpoint, "--s3-access-key", access.AccessKey, "--s3-secret-key", access.SecretKey,
	)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- options.Run.Run(ctx, options.common, log) }()

	clients, err := kubernetes.NewForConfig(plane.Access())
	must(t, err)
	holder := func() string {
		lease, err := clients.CoordinationV1().Leases("mediastack-system").Get(context.Background(), "mediastack-operator", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	wait.Until(t, "the operator answers its probes", func() bool {
		return answers(t, health, "/healthz") && answers(t, health, "/readyz") && answers(t, metrics, "/metrics")
	})
	wait.Until(t, "the operator holds the lease", func() bool { return holder() != "" })
	wait.Until(t, "an event names the leader", func() bool {
		events, err := clients.CoreV1().Events("mediastack-system").List(context.Background(), metav1.ListOptions{})
		must(t, err)
		for _, event := range events.Items {
			if event.Reason == "LeaderElection" && event.Type == corev1.EventTypeNormal {
				return true
			}
		}
		return false
	})
	testMetrics(t, plane, metrics)
	if !answers(t, metrics, "/debug/pprof/heap") || answers(t, metrics, "/debug/pprof/cmdline") {
		t.Error("/debug/pprof/ has no heap, or the command line")
	}
	stop()
	must(t, wait.Receive(t, "the operator has shut down", ended))
	if who := holder(); who != "" {
		t.Errorf("the lease is still held by %q", who)
	}
	for line := range strings.Lines(logs.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is not JSON: %s", line)
		}
	}
	if strings.Contains(logs.String(), access.SecretKey) {
		t.Error("the log holds the S3 secret key")
	}
}

func TestOperator_WithoutAClusterReportsIt(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	err := (&runCommand{}).Run(t.Context(), common{}, log)
	if err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("got %v", err)
	}
}

var must = check.NoError

func answers(t *testing.T, port int, path string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+path, nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

// The table of settings, which the runtime and the chart know too, has every setting of the operator.
func TestSettings_AreInTheTable(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&flags{}, parserOptions()...)
	must(t, err)
	declared := environment.Declared(parser.Model)
	for _, name := range declared {
		if !slices.Contains(environment.Names(), name) {
			t.Errorf("runtime/environment lacks %s: run `make generate`", name)
		}
	}
	if len(declared) < 25 {
		t.Errorf("there are %d settings only", len(declared))
	}
}

func TestOperator_RejectsMisspelledSettings(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), testenv.Binary(t, "mediastack-operator"), "uninstall", "--check")
	cmd.Env = append(cmd.Environ(), "SERVICE_WATCH_NAMESPACE=team-a")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "SERVICE_WATCH_NAMESPACE is not a setting; the nearest is SERVICE_WATCH_NAMESPACES") {
		t.Errorf("%v: %s", err, out)
	}
}
