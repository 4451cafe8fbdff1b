package operator_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/objectstatus"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait most of the time, so that more of them run at a time than there are processors.
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
	testenv.Main(m)
}

// fullEnv makes the tests with many accounts, or with an outage, run at their full size, as
// `make test-operator` does.
const fullEnv = "MEDIASTACK_TEST_FULL"

// size returns the number for `make test`, or the one for the full size.
func size[T any](small, full T) T {
	if os.Getenv(fullEnv) != "" {
		return full
	}
	return small
}

const baseURL = "https://media.example.org"

// far is the timeout and the grace of what a test is not about: it must not end before the test does, however
// slow the machine is.
const far = time.Hour

// harness is a namespace, a database and an operator of one test, on shared servers. The
// operator uses its service account, with the permissions of config/rbac.
type harness struct {
	client.Client // of a cluster admin, uncached
	plane         *kubetest.ControlPlane
	t             *testing.T
	ctx           context.Context
	namespace     string
	databaseURL   string
	database      *postgres.Store
	registry      *account.Registry
	store         *objectstore.Store
	buckets       *countingBuckets
	requests      *requestCounter
	transport     func(http.RoundTripper) http.RoundTripper // of the operators that start next; nil = none
	access        func() *rest.Config                       // of the operators that start next
	config        operator.Config
	recorder      *objectstatus.Recorder // sees every version of the objects, and fails the test for a contradiction
}

// options are what a test can choose.
type options struct {
	config operator.Config
	// plane is the control plane. A test that restarts or breaks one needs its own:
	// kubetest.New.
	plane       func(testing.TB) *kubetest.ControlPlane
	databaseURL func(testing.TB) string
	s3          func(testing.TB) testenv.S3Access
	namespace   string // empty = a new one
	idle        bool   // set up everything, but start no operator
	noRuntime   bool   // no replica of the runtime is recorded
	contradicts bool   // the test writes statuses that contradict themselves: nothing records them
}

func newHarness(t *testing.T, choose ...func(*options)) *harness {
	t.Helper()
	chosen := options{
		config: operator.Config{
			BaseURL: baseURL, BucketPrefix: "test", BucketCheckInterval: time.Second, BucketCheckRate: 1000, UsageInterval: time.Second, UsageWriteRate: 1000, WebhooksPerAccount: 5,
			RetainedInterval: time.Second, OrphanDelay: time.Second, TakeOverGrace: far,
			Concurrency: 8, MaxConcurrentDeletions: 2, HealthListen: "0", MetricsListen: "0",
			Installation: installation.Config{CheckInterval: time.Second, HeartbeatInterval: time.Minute},
		},
		plane: kubetest.Shared, databaseURL: testenv.Postgres, s3: testenv.S3,
	}
	for _, change := range choose {
		change(&chosen)
	}
	ctx := t.Context()
	b := &harness{t: t, ctx: ctx, plane: chosen.plane(t)}
	b.Client = admin(t, b.plane)
	b.access = func() *rest.Config { return operatorAccess(t, b.plane) }
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chosen.namespace, GenerateName: "test-"}}
	must(t, b.Create(ctx, namespace))
	b.namespace = namespace.Name
	record := objectstatus.Record
	if !b.plane.Shared() {
		record = objectstatus.RecordOverRestarts
	}
	if !chosen.contradicts {
		b.recorder = record(t, b.plane.Access(), b.namespace)
	}

	b.databaseURL = chosen.databaseURL(t)
	database := postgres.Config{DatabaseURL: b.databaseURL, DatabaseConns: 4, ConnectTimeout: far}
	var err error
	b.database, err = postgres.Open(context.WithoutCancel(ctx), database)
	must(t, err)
	t.Cleanup(b.database.Close)
	if !chosen.noRuntime {
		b.startRuntime()
	}
	b.registry = account.NewRegistry(b.database.Accounts, chosen.config.BucketPrefix, time.Now)
	access := chosen.s3(t)
	b.store, err = objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	b.buckets = &countingBuckets{Buckets: b.store, calls: map[string]int{}}
	b.requests = &requestCounter{calls: map[string]int{}}
	chosen.config.Namespaces, chosen.config.Namespace = []string{b.namespace}, b.namespace
	grantInstallation(t, b.plane, b.namespace)
	b.config = chosen.config
	if !chosen.idle {
		b.run(chosen.config)
	}
	return b
}

// run starts an operator for the test's namespace, whose parts change may replace. It is stopped
// by the returned function, or when the test ends.
func (b *harness) run(cfg operator.Config, change ...func(*operator.Deps)) (stop func()) {
	b.t.Helper()
	_, end := b.start(cfg, change...)
	stop = sync.OnceFunc(func() {
		if err := end(); err != nil {
			b.t.Errorf("the operator ended with %v", err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

// start is run for operators that may end by themselves: end returns their error.
func (b *harness) start(cfg operator.Config, change ...func(*operator.Deps)) (operators manager.Manager, end func() error) {
	b.t.Helper()
	kube := b.access()
	kube.Wrap(func(next http.RoundTripper) http.RoundTripper { return b.requests.around(next) })
	if b.transport != nil {
		kube.Wrap(b.transport)
	}
	ctx, cancel := context.WithCancel(context.Background())
	deps := operator.Deps{
		Accounts: b.database.Accounts, Settings: b.database.Settings, Pictures: b.database.Pictures, Webhooks: b.database.Webhooks, Buckets: b.buckets, Runtimes: b.database.Installations, Changes: b.database, Installation: b.database.Installations, Markers: b.store, Now: time.Now, Log: testLog(b.t),
	}
	for _, change := range change {
		change(&deps)
	}
	operators, err := operator.New(ctx, kube, cfg, deps)
	must(b.t, err)
	ended := make(chan error, 1)
	go func() { ended <- operators.Start(ctx) }()
	end = sync.OnceValue(func() error { cancel(); return <-ended })
	b.t.Cleanup(func() { _ = end() })
	return operators, end
}

// ownConnections returns a change that makes an operator use connections of its own, as each process
// does, and so a fence of its own.
func (b *harness) ownConnections() func(*operator.Deps) {
	b.t.Helper()
	store := b.openStore()
	return func(deps *operator.Deps) {
		deps.Accounts, deps.Settings, deps.Runtimes, deps.Changes, deps.Installation = store.Accounts, store.Settings, store.Installations, store, store.Installations
		deps.Webhooks = store.Webhooks
	}
}

// startRuntime records a replica of the runtime as one that serves, as the runtime does, until the
// returned function is called or the test ends.
func (b *harness) startRuntime() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = installation.NewInstance(installation.InstanceConfig{InstanceTimeout: far}, "test", installation.InstanceDeps{
			Store: b.database.Installations, Writable: func() error { return nil }, EndUploads: func(context.Context) error { return nil },
			Renewed: func(time.Time, bool) {}, Settle: func(context.Context, bool) error { return nil }, Log: slog.New(slog.DiscardHandler),
		}).Run(ctx)
	})
	stop = func() { cancel(); running.Wait() }
	b.t.Cleanup(stop)
	wait.UntilNone(b.t, func() string {
		serving, err := b.database.Installations.ServingRuntimes(b.ctx)
		must(b.t, err)
		if serving.Replicas == 0 {
			return "the replica is not recorded"
		}
		return ""
	})
	return stop
}

// testLog shows the operator's log with -v only: many tests cause retries.
func testLog(t *testing.T) *slog.Logger {
	out := io.Discard
	if testing.Verbose() {
		out = t.Output()
	}
	return slog.New(slog.NewTextHandler(out, nil))
}

var must = check.NoError

// admin returns an uncached client with all permissions.
func admin(t testing.TB, plane *kubetest.ControlPlane) client.Client {
	t.Helper()
	scheme := kruntime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	must(t, corev1.AddToScheme(scheme))
	c, err := client.New(plane.Access(), client.Options{Scheme: scheme})
	must(t, err)
	return c
}

// kubeconfigs are those of the operator's service account, by the URL of the API server.
var kubeconfigs sync.Map

// grantInstallation grants the operator the ConfigMap of the installation in the namespace of a
// test: each test has a database, and so an installation, of its own.
func grantInstallation(t testing.TB, plane *kubetest.ControlPlane, namespace string) {
	t.Helper()
	grantIn(t, plane, namespace, "rbac/installation_role.yaml", "rbac/installation_role_binding.yaml")
}

// grantIn applies the roles of config, which are of the operator's own namespace, to another one.
func grantIn(t testing.TB, plane *kubetest.ControlPlane, namespace string, files ...string) {
	t.Helper()
	roles := kubetest.Manifests(t, files...)
	for _, object := range roles {
		object.SetNamespace(namespace)
	}
	plane.Apply(roles...)
}

// operatorAccess returns a configuration that uses the operator's service account, after granting
// it the permissions of config/rbac.
func operatorAccess(t testing.TB, plane *kubetest.ControlPlane) *rest.Config {
	t.Helper()
	path, _ := kubeconfigs.LoadOrStore(plane.Access().Host, sync.OnceValue(func() string {
		plane.Apply(kubetest.Manifests(t, "default/namespace.yaml", "rbac")...)
		return plane.ServiceAccountKubeconfig("mediastack-system", "mediastack-operator")
	}))
	config, err := clientcmd.BuildConfigFromFlags("", path.(func() string)())
	must(t, err)
	return config
}

// account creates a MediaAccount.
func (b *harness) account(name string, change ...func(*v1alpha1.MediaAccount)) *v1alpha1.MediaAccount {
	b.t.Helper()
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	for _, change := range change {
		change(object)
	}
	must(b.t, b.Create(b.ctx, object))
	return object
}

// settings creates a MediaSettings.
func (b *harness) settings(name, account string, change ...func(*v1alpha1.MediaSettings)) *v1alpha1.MediaSettings {
	b.t.Helper()
	object := &v1alpha1.MediaSettings{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	object.Spec.AccountRef.Name = account
	for _, change := range change {
		change(object)
	}
	must(b.t, b.Create(b.ctx, object))
	return object
}

// change updates an object, and retries on a conflict.
func change[T client.Object](b *harness, object T, change func(T)) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		change(object)
		if err := b.Update(b.ctx, object); err != nil {
			return err.Error()
		}
		return ""
	})
}

// secret reads the Secret of an app.
func (b *harness) secret(account, app string) *corev1.Secret {
	b.t.Helper()
	secret := &corev1.Secret{}
	must(b.t, b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: v1alpha1.SecretName(account, app)}, secret))
	return secret
}

// opens reports whether the runtime accepts a Secret's key.
func (b *harness) opens(key []byte) bool {
	b.t.Helper()
	token, ok := account.ParseKeySecret(string(key))
	if !ok {
		b.t.Fatalf("the key has no valid form")
	}
	principal, err := b.database.Credentials.FindPrincipal(b.ctx, token.Hash())
	if err != nil {
		return false
	}
	return principal.Account.ClosedAt == nil && (principal.Key.ExpiresAt == nil || principal.Key.ExpiresAt.After(time.Now()))
}

// accountID returns the id in the status.
func (b *harness) accountID(object *v1alpha1.MediaAccount) uuid.UUID {
	b.t.Helper()
	id, err := uuid.Parse(object.Status.AccountID)
	must(b.t, err)
	return id
}

// exec runs a statement in the test's database.
func (b *harness) exec(statement string, args ...any) {
	b.t.Helper()
	must(b.t, check.ErrorOf(testenv.Connections(b.t, b.databaseURL).Exec(b.ctx, statement, args...)))
}
