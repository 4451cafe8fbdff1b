package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/controlplane"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
	pgstore "mediastack.dev/runtime/postgres"
)

// Names of processes in tables.
const (
	operatorName = "operator"
	apiServer    = "API server"
	etcd         = "etcd"
)

const (
	operatorNamespace = "mediastack-system"
	operatorLease     = "mediastack-operator"
	// operatorRole is the operator's own role in PostgreSQL, so that its statements are counted apart.
	operatorRole = "bench_operator"
	// operatorMemory is GOMEMLIMIT of the manifests.
	operatorMemory = "410MiB"
	// fleetNamespace and bareNamespace are unlike anything else in the objects that the bare loop copies.
	fleetNamespace = "bench-fleet"
	bareNamespace  = "bench-loop"
)

// countedStatements are the settings of a PostgreSQL whose statements are counted.
var countedStatements = map[string]string{"shared_preload_libraries": "pg_stat_statements"}

// cluster is a control plane with the operator and a runtime, besides the stores of the environment.
type cluster struct {
	b       *bench
	kube    *controlplane.ControlPlane
	api     kube.WithWatch
	metrics *http.Client // with the administrator's rights
	sql     *pgx.Conn    // with the administrator's rights, too
	proxy   *countingProxy
	runtime *endpoint

	database       string
	kubeconfig     string // the operator's
	operatorListen string // of the operator's metrics
	operator       *servers.Process

	background float64 // transaction ids a second without an operator
}

// startCluster starts everything but the operator.
func (b *bench) startCluster(ctx context.Context) (*cluster, error) {
	c := &cluster{b: b, database: "bench_" + strings.ReplaceAll(b.name, "-", "_")} // an installation of its own
	if err := c.startControlPlane(ctx); err != nil {
		return nil, err
	}
	if err := c.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	var err error
	if c.proxy, err = startCountingProxy(b.env.s3.Access); err != nil {
		return nil, err
	}
	if c.runtime, err = b.env.serve(ctx, service, tenant{}, "SERVICE_DATABASE_URL="+b.env.server.URL(c.database)); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) startControlPlane(ctx context.Context) (err error) {
	env := c.b.env
	c.kube, err = controlplane.Start(ctx, env.group, controlplane.Config{Dir: filepath.Join(env.dir, c.b.name), LogDir: env.dir, Volatile: env.volatile})
	if err != nil {
		return err
	}
	env.watched[apiServer], env.watched[etcd] = c.kube.APIServer.PID(), c.kube.Etcd.PID()
	config := rest.CopyConfig(c.kube.Config)
	config.QPS = -1 // the limit is meant for many clients
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
		return err
	}
	objects, err := kubeapply.Read("default/namespace.yaml", "crd/bases", "admission", "rbac")
	if err != nil {
		return err
	}
	if err := kubeapply.Apply(ctx, config, "bench", objects...); err != nil {
		return err
	}
	if c.api, err = kube.NewWithWatch(config, kube.Options{Scheme: scheme}); err != nil {
		return err
	}
	if c.metrics, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	for _, name := range []string{fleetNamespace, bareNamespace} {
		if err := c.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	c.kubeconfig, err = c.kube.ServiceAccountKubeconfig(ctx, operatorNamespace, operatorLease)
	return err
}

// prepareDatabase makes the database and adds the operator's role.
func (c *cluster) prepareDatabase(ctx context.Context) (err error) {
	env := c.b.env
	if err := env.server.CreateDatabase(ctx, c.database); err != nil {
		return err
	}
	if err := pgstore.Migrate(ctx, pgstore.Config{DatabaseURL: env.server.URL(c.database)}, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if c.sql, err = pgx.Connect(ctx, env.server.AdminURL(c.database)); err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
		"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '" + operatorRole + "') THEN CREATE ROLE " + operatorRole + " LOGIN IN ROLE " + servers.Role + "; END IF; END $$",
	} {
		if _, err := c.sql.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// startOperator starts the shipped operator, or starts it again.
func (c *cluster) startOperator(ctx context.Context) error {
	env := c.b.env
	binary, err := setup.FindBinary(servers.OperatorBinary)
	if err != nil {
		return err
	}
	health, err := servers.FreePort()
	if err != nil {
		return err
	}
	metrics, err := servers.FreePort()
	if err != nil {
		return err
	}
	databaseURL, err := url.Parse(env.server.URL(c.database))
	if err != nil {
		return err
	}
	databaseURL.User = url.User(operatorRole)
	c.operatorListen = "127.0.0.1:" + strconv.Itoa(metrics)
	c.operator, err = env.group.Start(ctx, servers.OperatorSpec(servers.OperatorConfig{
		Name: operatorName, Binary: binary, LogFile: filepath.Join(env.dir, operatorName+".log"), Kubeconfig: c.kubeconfig,
		LeaderElection: operatorNamespace, Health: "127.0.0.1:" + strconv.Itoa(health), Metrics: c.operatorListen,
		Env: append(servers.StoreSettings(databaseURL.String(), c.proxy.access), "SERVICE_BASE_URL="+c.runtime.baseURL, "SERVICE_PPROF=true",
			"SERVICE_LOG_FORMAT=text", "GOMEMLIMIT="+operatorMemory),
	}))
	if err != nil {
		return err
	}
	env.watched[operatorName] = c.operator.PID()
	return nil
}

// scrape reads a path of the operator's metrics listener.
func (c *cluster) scrape(ctx context.Context, path string) (string, error) {
	return readPage(ctx, http.DefaultClient, "http://"+c.operatorListen+path)
}

func readPage(ctx context.Context, client *http.Client, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s was answered %s", address, response.Status)
	}
	return string(text), err
}

// footprint is the memory of the operator with so many accounts, in MiB.
type footprint struct {
	accounts       int
	heap, resident float64
}

// footprint collects garbage in the operator, and reads its memory.
func (c *cluster) footprint(ctx context.Context, accounts int) (footprint, error) {
	if err := c.settle(ctx); err != nil {
		return footprint{}, err
	}
	text, err := c.scrape(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return footprint{}, err
	}
	_, after, found := strings.Cut(text, "\n# HeapAlloc = ")
	number, _, _ := strings.Cut(after, "\n")
	bytes, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil {
		return footprint{}, fmt.Errorf("the profile of the heap does not have its size: %w", err)
	}
	return footprint{accounts: accounts, heap: mebibytes(bytes), resident: mebibytes(memoryOf(c.operator.PID()).VmRSS)}, nil
}

// countingProxy passes requests to the S3 store and counts them.
type countingProxy struct {
	access   servers.S3Access
	requests atomic.Int64
}

func startCountingProxy(access servers.S3Access) (*countingProxy, error) {
	target, err := url.Parse(access.Endpoint)
	if err != nil {
		return nil, err
	}
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	transport, err := newClient()
	if err != nil {
		return nil, err
	}
	p := &countingProxy{access: access}
	pass := &httputil.ReverseProxy{
		Transport: transport.Transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }, // the host is signed
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),                     // a store that hangs is part of the measurement
	}
	listen := "127.0.0.1:" + strconv.Itoa(port)
	p.access.Endpoint = "http://" + listen
	server := &http.Server{Addr: listen, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		pass.ServeHTTP(w, r)
	})}
	listening := make(chan error, 1)
	go func() { listening <- server.ListenAndServe() }() // it ends with this program
	for {
		select {
		case err := <-listening:
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
		if servers.Accepts(listen)(context.Background()) == nil {
			return p, nil
		}
	}
}

// hangS3 stops the S3 store, so that it takes requests and answers none, until the returned function is
// called.
func (c *cluster) hangS3() (resume func(), err error) {
	process := c.b.env.s3.Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return func() { _ = process.Signal(syscall.SIGCONT) }, nil
}
