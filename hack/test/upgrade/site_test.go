// Package upgrade replaces the programs of a running installation with those of the next version, and
// back, while tenants upload and read. The next version is this one with migrations that go build adds
// (docs/decisions/0039).
package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// version is one of the versions of the programs.
type version struct {
	name              string
	runtime, operator string // paths
}

// build builds programs of this checkout with more migrations: their texts, by their file names.
func build(t *testing.T, name string, migrations map[string]string, packages ...string) version {
	t.Helper()
	dir, root := testenv.TempDir(t), testenv.RepoRoot(t)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range migrations {
		added := filepath.Join(dir, file)
		must(t, os.WriteFile(added, []byte(text), 0o600))
		overlay.Replace[filepath.Join(root, "runtime", "postgres", "migrations", file)] = added
	}
	text, err := json.Marshal(overlay)
	must(t, err)
	path := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(path, text, 0o600))
	command := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", path, "-ldflags", "-s -w -X main.version=" + name, "-o", dir + "/"}, packages...)...)
	command.Dir = root
	// Those of make, so that only what a migration changes is compiled again.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false -trimpath")
	begun := time.Now()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	t.Logf("%s was built in %s", name, time.Since(begun).Round(time.Second/10))
	return version{name, filepath.Join(dir, servers.RuntimeBinary), filepath.Join(dir, servers.OperatorBinary)}
}

const (
	runtimePackage  = "./runtime/cmd/mediastack-runtime"
	operatorPackage = "./controllers/cmd/mediastack-operator"
)

// present is the version of this checkout, as make has built it.
func present(t *testing.T) version {
	t.Helper()
	return version{"this version", testenv.Binary(t, servers.RuntimeBinary), testenv.Binary(t, servers.OperatorBinary)}
}

// site is an installation.
type site struct {
	t         *testing.T
	dir       string
	database  string
	stores    []string
	secret    string
	plane     *kubetest.ControlPlane
	admin     client.Client
	namespace string
	front     *front
	operator  *testenv.Process
	health    int // port of the operator's readiness
	started   int
}

// newSite makes an installation without programs.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: testenv.TempDir(t), database: testenv.EmptyPostgres(t), secret: servers.RandomSecret(32), plane: kubetest.Shared(t), front: newFront(t)}
	s.stores = testenv.StoreSettings(s.database, testenv.S3(t))
	scheme := kruntime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	must(t, corev1.AddToScheme(scheme))
	var err error
	s.admin, err = client.New(s.plane.Access(), client.Options{Scheme: scheme})
	must(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "upgrade-"}}
	must(t, s.admin.Create(t.Context(), namespace))
	s.namespace = namespace.Name
	return s
}

// command runs a command of the runtime, and returns its exit code and what it printed.
func (s *site) command(v version, args ...string) (code int, text string) {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), v.runtime, args...)
	command.Env = append(slices.Clone(s.stores), "SERVICE_SECRET="+s.secret, "SERVICE_BASE_URL="+s.front.URL)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		s.t.Fatalf("%s %q: %v", v.name, args, err)
	}
	return command.ProcessState.ExitCode(), string(out)
}

// succeeds runs a command that must exit with 0, and returns what it printed.
func (s *site) succeeds(v version, args ...string) string {
	s.t.Helper()
	code, text := s.command(v, args...)
	if code != 0 {
		s.t.Fatalf("%s %q: exit code %d: %s", v.name, args, code, text)
	}
	return text
}

// startRuntime starts a replica behind the front, and returns when it is ready.
func (s *site) startRuntime(v version) *testenv.RuntimeProcess {
	s.t.Helper()
	s.started++
	runtime := testenv.Runtime(s.t, testenv.RuntimeConfig{Name: fmt.Sprintf("runtime %d of %s", s.started, v.name), Binary: v.runtime, LogDir: s.dir, BaseURL: s.front.URL, Secret: s.secret, Stores: s.stores,
		// The load comes from one address with one key. The front needs no time to notice that a replica ends.
		Env: append(slices.Clone(servers.Unlimited), "SERVICE_IMAGE_ENABLED=false", "SERVICE_INSTALLATION_CHECK_INTERVAL=1s", "SERVICE_DRAIN_DELAY=500ms")})
	s.front.add(runtime.Addr)
	return runtime
}

// replaceRuntimes replaces replicas one at a time, as a Deployment does: the init container migrates, the next one is
// ready before the former one ends.
func (s *site) replaceRuntimes(v version, former ...*testenv.RuntimeProcess) (replicas []*testenv.RuntimeProcess) {
	s.t.Helper()
	for _, one := range former {
		s.succeeds(v, "migrate")
		replicas = append(replicas, s.startRuntime(v))
		s.front.remove(one.Addr)
		one.Stop()
	}
	return replicas
}

// startOperator starts an operator of one namespace. A former one ends when the new one is ready.
func (s *site) startOperator(v version) {
	s.t.Helper()
	former, port := s.operator, testenv.FreePort(s.t)
	s.started++
	var err error
	s.operator, err = testenv.Group(s.t).Start(s.t.Context(), servers.OperatorSpec(servers.OperatorConfig{
		Name: "the operator of " + v.name, Binary: v.operator, LogFile: filepath.Join(s.dir, fmt.Sprintf("operator-%d.log", s.started)),
		Kubeconfig: s.plane.Kubeconfig(), LeaderElection: s.namespace, Health: fmt.Sprintf("127.0.0.1:%d", port),
		Env: append(slices.Clone(s.stores), "SERVICE_BASE_URL="+s.front.URL, "SERVICE_NAMESPACE="+s.namespace, "SERVICE_WATCH_NAMESPACES="+s.namespace,
			"SERVICE_INSTALLATION_CHECK_INTERVAL=1s", "SERVICE_BUCKET_CHECK_INTERVAL=1s"),
	}))
	must(s.t, err)
	s.health = port
	if former != nil {
		former.Stop()
	}
}

// account makes a MediaAccount, waits until it is Ready, and returns its key.
func (s *site) account(name string) string {
	s.t.Helper()
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	must(s.t, s.admin.Create(s.t.Context(), object))
	wait.UntilNone(s.t, func() string {
		must(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
		if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Sprintf("the account %s is not Ready: %v", name, object.Status.Conditions)
		}
		return ""
	})
	secret := &corev1.Secret{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: v1alpha1.SecretName(name, "default")}, secret))
	return string(secret.Data["apiKey"])
}

// tables returns the names of the tables of the service.
func (s *site) tables() []string {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.database)
	must(s.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) }()
	rows, err := conn.Query(s.t.Context(), "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace AND relname <> 'goose_db_version' ORDER BY 1")
	must(s.t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(s.t, err)
	return names
}

// front is the Service of a cluster: it passes requests to the replicas in turn.
type front struct {
	*httptest.Server
	mu       sync.Mutex
	replicas []string
	next     int
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: f.replica()})
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1,
		// A connection for each request, as clients of their own would have.
		Transport: &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the front: "+err.Error(), http.StatusBadGateway)
		},
	})
	t.Cleanup(f.Close)
	return f
}

func (f *front) replica() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.replicas) == 0 {
		return "127.0.0.1:1" // which nothing listens at
	}
	f.next++
	return f.replicas[f.next%len(f.replicas)]
}

func (f *front) add(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = append(f.replicas, address)
}

func (f *front) remove(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = slices.DeleteFunc(f.replicas, func(one string) bool { return strings.EqualFold(one, address) })
}
