package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/environment"
	"mediastack.dev/runtime/media"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// buffer is written by a command while the test reads it.
type buffer = check.Buffer

// call runs a command to its end.
func call(ctx context.Context, args ...string) (code int, out, err string) {
	var stdout, stderr buffer
	code = run(ctx, args, stdio{out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestCommandLine_ExplainsItself(t *testing.T) {
	t.Parallel()
	if code, out, _ := call(t.Context(), "--version"); code != 0 || strings.TrimSpace(out) == "" {
		t.Errorf("--version: %d %q", code, out)
	}
	for name, config := range map[string]any{"serve": serveCommand{}, "purge": purgeCommand{}, "migrate": migrateCommand{}} {
		code, out, _ := call(t.Context(), name, "--help")
		if code != 0 {
			t.Errorf("%s --help: %d", name, code)
		}
		for _, env := range append(settingsOf(reflect.TypeOf(config)), "SERVICE_LOG_FORMAT", "SERVICE_LOG_LEVEL") {
			if !strings.Contains(out, env) {
				t.Errorf("%s --help does not name %s", name, env)
			}
		}
	}
}

// settingsOf lists the environment names of a command's settings.
func settingsOf(config reflect.Type) []string {
	var names []string
	for i := range config.NumField() {
		field := config.Field(i)
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			names = append(names, settingsOf(field.Type)...)
		} else {
			names = append(names, field.Tag.Get("env"))
		}
	}
	return names
}

const goodSecret = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func TestCommands_RejectInvalidConfigurationWithExitCode2(t *testing.T) {
	t.Parallel()
	serve := []string{"serve", "--base-url=http://media.test", "--secret=" + goodSecret, "--database-url=postgres://u:hunter2@127.0.0.1:1/x",
		"--s3-endpoint=http://127.0.0.1:1", "--s3-access-key=a", "--s3-secret-key=hunter2"}
	for want, args := range map[string][]string{
		"expected one of":               {},
		"unexpected argument bogus":     {"bogus"},
		"not set: SERVICE_BASE_URL, SE": {"serve"},
		"not set: SERVICE_DATABASE_URL": {"migrate"},
		"SERVICE_BASE_URL must":         append(serve, "--base-url=media.test"),
		"SERVICE_SECRET must":           append(serve, "--secret=abc"),
		"SERVICE_BRAND must":            append(serve, "--brand=Ü"),
		"SERVICE_MAX_UPLOADS must":      append(serve, "--max-uploads=0"),
		"SERVICE_DELIVERY_TTL must":     append(serve, "--delivery-ttl=0s"),
		"SERVICE_MAX_DOWNLOADS must":    append(serve, "--delivery-max-downloads=-1"),
		"--log-level":                   append(serve, "--log-level=loud"),
		"--log-format":                  append(serve, "--log-format=xml"),
		"SERVICE_DATABASE_URL is not":   append(serve, "--database-url=mysql://u:hunter2@x"),
		"the S3 endpoint must":          append(serve, "--s3-endpoint=x"),
	} {
		code, out, err := call(t.Context(), args...)
		if code != exitUsage || out != "" || !strings.HasPrefix(err, "mediastack-runtime: ") || !strings.Contains(err, want) || strings.Count(err, "\n") != 1 {
			t.Errorf("%v: code %d, %q, want %q", args, code, err, want)
		}
		if strings.Contains(err, "hunter2") {
			t.Errorf("a secret is in %q", err)
		}
	}
}

// Serve accepted SERVICE_DRAFT_TTL=-1h, which the purge rejected: the list of its configurations lacked that one. No command
// accepts a duration or a number that means nothing, whatever configuration has it.
func TestCommands_RejectNegativeSettings(t *testing.T) {
	t.Parallel()
	given := map[string][]string{
		"check": {"--all"},
		"serve": {"--base-url=http://media.test", "--secret=" + goodSecret}, "preflight": {"--base-url=http://media.test", "--secret=" + goodSecret},
		"server-json": {"--base-url=http://media.test"}, "review-code": {"--account=team-a/demo", "--email=a@example.org"},
	}
	stores := []string{"--database-url=postgres://u@127.0.0.1:1/x", "--s3-endpoint=http://127.0.0.1:1", "--s3-access-key=a", "--s3-secret-key=b"}
	parser, err := kong.New(&command{}, kong.Vars{"version": ""})
	must(t, err)
	checked := 0
	for _, node := range parser.Model.Leaves(false) {
		args := append(strings.Fields(node.Path()), given[node.Name]...)
		for _, store := range stores {
			if name, _, _ := strings.Cut(store, "="); slices.ContainsFunc(node.Flags, func(flag *kong.Flag) bool { return "--"+flag.Name == name }) {
				args = append(args, store)
			}
		}
		if _, err := kongOf(t).Parse(args); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		for _, flag := range node.Flags {
			var value string
			switch {
			case flag.Target.Type() == reflect.TypeFor[time.Duration]():
				value = "-1h"
			case flag.Target.CanInt():
				value = "-7"
			default:
				continue
			}
			checked++
			_, err := kongOf(t).Parse(append(slices.Clone(args), "--"+flag.Name+"="+value))
			if name := flag.Envs; err == nil || len(name) > 0 && !strings.Contains(err.Error(), name[0]) || len(name) == 0 && !strings.Contains(err.Error(), flag.Name) {
				t.Errorf("%s --%s=%s (%v): %v, want an error that names the setting", node.Name, flag.Name, value, flag.Envs, err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d settings were checked only", checked)
	}
}

// kongOf returns a parser that ends nothing.
func kongOf(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := kong.New(&command{}, kong.Vars{"version": ""}, kong.Exit(func(code int) { t.Errorf("exit code %d", code) }))
	must(t, err)
	return parser
}

func TestCommands_WithRealStores(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.EmptyPostgres(t), testenv.S3(t)
	stores := []string{"--database-url=" + database, "--s3-endpoint=" + s3.Endpoint, "--s3-region=" + s3.Region, "--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var logs buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--base-url=http://media.test", "--secret=" + goodSecret, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--drain-delay=0s",
			"--image-worker-path=" + testenv.Binary(t, "mediastack-imaging")}, stores...),
			stdio{out: &logs, err: &logs})
	}()
	var admin string
	testwait.Until(t, "the runtime serves", func() bool { admin = attribute(logs.String(), "listening", "admin"); return admin != "" })
	ready := func() int {
		response, err := http.Get("http://" + admin + "/readyz")
		must(t, err)
		_ = response.Body.Close()
		return response.StatusCode
	}
	if status := ready(); status != http.StatusServiceUnavailable {
		t.Errorf("without a schema /readyz answers %d", status)
	}
	if code, out, err := call(t.Context(), append([]string{"purge"}, stores...)...); code != exitFailed || !strings.Contains(err, "migrate") {
		t.Errorf("purge without a schema: %d %s %s", code, out, err)
	}
	for _, want := range []string{"00010_initial.sql", "no pending migrations"} {
		if code, _, err := call(t.Context(), "migrate", "--database-url="+database); code != 0 || !strings.Contains(err, want) {
			t.Errorf("migrate: %d %s, want %s", code, err, want)
		}
	}
	testwait.Until(t, "the runtime is ready", func() bool { return ready() == http.StatusOK })
	code, out, _ := call(t.Context(), append([]string{"purge"}, stores...)...)
	var summary media.PurgeSummary
	if err := json.Unmarshal([]byte(out), &summary); code != 0 || err != nil || !summary.Ran || strings.Count(out, "\n") != 1 {
		t.Errorf("purge: %d %s %v", code, out, err)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("serve ended with %d: %s", code, logs.String())
	}
	if text := logs.String(); strings.Contains(text, goodSecret) || strings.Contains(text, s3.SecretKey) {
		t.Error("the log holds a secret")
	}
}

// attribute finds an attribute in the log line with this message.
func attribute(logs, message, name string) string {
	for line := range strings.Lines(logs) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
			value, _ := entry[name].(string)
			return value
		}
	}
	return ""
}

func TestRuntimeBinary_LinksNoForbiddenPackage(t *testing.T) {
	t.Parallel()
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	must(t, err)
	for dep := range strings.Lines(string(deps)) {
		for _, banned := range []string{"k8s.io/", "sigs.k8s.io/controller-runtime", "github.com/h2non/bimg", "github.com/bep/imagemeta", "mediastack.dev/runtime/internal/imaging/capturefile", "github.com/getkin/kin-openapi", "mediastack.dev/hack", "testing"} {
			if dep = strings.TrimSpace(dep); dep == banned || strings.HasPrefix(dep, banned) && strings.HasSuffix(banned, "/") || strings.HasPrefix(dep, banned+"/") {
				t.Errorf("the program links %s", dep)
			}
		}
	}
}

// The table of settings, which the operator and the chart know too, has every setting of the program.
func TestSettings_AreInTheTable(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&command{}, kong.Vars{"version": ""})
	must(t, err)
	declared := environment.Declared(parser.Model)
	for _, name := range declared {
		if !slices.Contains(environment.Names(), name) {
			t.Errorf("runtime/environment lacks %s: run `make generate`", name)
		}
	}
	if len(declared) < 80 {
		t.Errorf("there are %d settings only", len(declared))
	}
}

func TestCommands_RejectMisspelledSettings(t *testing.T) {
	t.Setenv("SERVICE_MAX_UPLOAD", "7")
	for _, args := range [][]string{{"serve"}, {"migrate", "--database-url=postgres://u@127.0.0.1:1/x"}, {"secrets", "init"}} {
		code, out, text := call(t.Context(), args...)
		if want := "mediastack-runtime: SERVICE_MAX_UPLOAD is not a setting; the nearest is SERVICE_MAX_UPLOADS\n"; code != exitUsage || out != "" || text != want {
			t.Errorf("%q: %d %q %q, want %q", args, code, out, text, want)
		}
	}
	if code, _, _ := call(t.Context(), "--version"); code != 0 {
		t.Errorf("--version: %d", code)
	}
}
