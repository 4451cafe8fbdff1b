package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
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
	operatorAccount   = "mediastack-operator"
	// operatorRole is the operator's own role in PostgreSQL, so that its statements are counted apart.
	operatorRole = "bench_operator"
	// operatorDatabase is another one than that of the environment: an installation of its own.
	operatorDatabase = "bench_operator"
	// operatorMemory is GOMEMLIMIT of the manifests.
	operatorMemory = "410MiB"
	fleetNamespace = "bench-fleet"
)

// countedStatements are the settings of a PostgreSQL whose statements are counted.
var countedStatements = map[string]string{"shared_preload_libraries": "pg_stat_statements"}

// cluster is a control plane with the operator and a runtime, besides the stores of the environment.
type cluster struct {
	b         *bench
	kube      *servers.Kubernetes
	api       kube.WithWatch
	apiServer *endpoint // with the rights of the administrator
	sql       *pgx.Conn // with the administrator's rights, too
	runtime   *endpoint

	kubeconfig string    // the operator's
	admin      *endpoint // of the operator
	operator   *servers.Process
}

// startCluster starts everything but the operator.
func (b *bench) startCluster(ctx context.Context) (*cluster, error) {
	c := &cluster{b: b}
	if err := c.startControlPlane(ctx); err != nil {
		return nil, err
	}
	if err := c.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	var err error
	if c.runtime, err = b.env.serve(ctx, service, tenant{}, "SERVICE_DATABASE_URL="+b.env.server.URL(operatorDatabase)); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) startControlPlane(ctx context.Context) (err error) {
	env := c.b.env
	c.kube, err = env.group.StartKubernetes(ctx, servers.KubernetesConfig{Dir: filepath.Join(env.dir, c.b.name), LogDir: env.dir, Volatile: env.volatile})
	if err != nil {
		return err
	}
	env.watched[apiServer], env.watched[etcd] = c.kube.APIServer.PID(), c.kube.Etcd.PID()
	config := rest.CopyConfig(c.kube.Config)
	config.QPS = -1 // the limit is meant for many clients
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
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
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	c.apiServer = &endpoint{baseURL: config.Host, client: client}
	if err := c.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}}); err != nil {
		return err
	}
	c.kubeconfig, err = c.kube.ServiceAccountKubeconfig(ctx, operatorNamespace, operatorAccount)
	return err
}

// prepareDatabase makes the database and adds the operator's role.
func (c *cluster) prepareDatabase(ctx context.Context) (err error) {
	env := c.b.env
	if err := env.server.CreateDatabase(ctx, operatorDatabase); err != nil {
		return err
	}
	if err := pgstore.Migrate(ctx, pgstore.Config{DatabaseURL: env.server.URL(operatorDatabase)}, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if c.sql, err = pgx.Connect(ctx, env.server.AdminURL(operatorDatabase)); err != nil {
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
	var listen [2]string
	for i := range listen {
		port, err := servers.FreePort()
		if err != nil {
			return err
		}
		listen[i] = "127.0.0.1:" + strconv.Itoa(port)
	}
	databaseURL, err := url.Parse(env.server.URL(operatorDatabase))
	if err != nil {
		return err
	}
	databaseURL.User = url.User(operatorRole)
	c.operator, err = env.group.Start(ctx, servers.OperatorSpec(servers.OperatorConfig{
		Name: operatorName, Binary: binary, LogFile: filepath.Join(env.dir, operatorName+".log"), Kubeconfig: c.kubeconfig,
		LeaderElection: operatorNamespace, Health: listen[0], Metrics: listen[1],
		Env: append(servers.StoreSettings(databaseURL.String(), env.s3.Access), "SERVICE_BASE_URL="+c.runtime.baseURL, "SERVICE_PPROF=true",
			"SERVICE_LOG_FORMAT=text", "GOMEMLIMIT="+operatorMemory),
	}))
	if err != nil {
		return err
	}
	c.admin, err = env.endpoint(operatorName, c.operator, "http://"+listen[1], "")
	return err
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
	text, err := c.admin.get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return footprint{}, err
	}
	_, after, found := strings.Cut(string(text), "\n# HeapAlloc = ")
	number, _, _ := strings.Cut(after, "\n")
	bytes, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil {
		return footprint{}, fmt.Errorf("the profile of the heap does not have its size: %w", err)
	}
	return footprint{accounts: accounts, heap: mebibytes(bytes), resident: mebibytes(memoryOf(c.operator.PID()).VmRSS)}, nil
}
