package operators

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/controlplane"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/test/chaos/faults"
)

const (
	database          = "chaos"
	namespace         = "chaos"
	operatorBinary    = "mediastack-operator"
	operatorNamespace = "mediastack-system"
	operatorAccount   = "mediastack-operator"
	leaseName         = "mediastack-operator"
	fieldManager      = "chaos"
	// requestTimeout bounds one request to the API server, which may be dead.
	requestTimeout = 10 * time.Second
)

// environment is a control plane, PostgreSQL, S3, a runtime that no fault meets directly, and two
// operators, each behind proxies of its own.
type environment struct {
	group *servers.Group
	dir   string

	kube    *controlplane.ControlPlane
	db      *servers.Postgres
	s3      *servers.S3
	runtime *servers.Runtime

	access    *rest.Config
	admin     client.Client
	raw       *minio.Client
	adminURL  string // of the database
	operators []*operator
}

// operator is one replica, which is started again whenever it ends.
type operator struct {
	name         string
	kube, db, s3 *faults.Proxy
	spec         servers.Spec
	group        *servers.Group

	mu      sync.Mutex
	process *servers.Process
	exits   int // how often it ended by itself
}

func startEnvironment(ctx context.Context, parent string) (*environment, error) {
	dir, err := servers.MakeDataDir(parent, "mediastack-chaos-")
	if err != nil {
		return nil, err
	}
	e := &environment{group: servers.NewGroup(), dir: dir}
	if err := e.start(ctx); err != nil {
		e.close(false)
		return nil, err
	}
	return e, nil
}

func (e *environment) path(name string) string { return filepath.Join(e.dir, name) }

func (e *environment) start(ctx context.Context) error {
	if err := e.startStores(ctx); err != nil {
		return err
	}
	if err := e.startKubernetes(ctx); err != nil {
		return err
	}
	var err error
	if e.runtime, err = e.group.StartRuntime(ctx, servers.RuntimeConfig{LogDir: e.dir, Stores: servers.StoreSettings(e.db.URL(database), e.s3.Access), Env: servers.Unlimited}); err != nil {
		return err
	}
	for _, name := range []string{"operator A", "operator B"} {
		one, err := e.newOperator(ctx, name)
		if err != nil {
			return err
		}
		e.operators = append(e.operators, one)
	}
	return nil
}

func (e *environment) startStores(ctx context.Context) (err error) {
	// Volatile: processes are killed here, not the machine.
	if e.db, err = e.group.StartPostgres(ctx, servers.PostgresConfig{Dir: e.path("postgres"), LogFile: e.path("postgres.log"),
		TCP: true, Password: servers.RandomSecret(8), Volatile: true}); err != nil {
		return err
	}
	e.adminURL = e.db.AdminURL(database)
	if err := e.db.CreateDatabase(ctx, database); err != nil {
		return err
	}
	if e.s3, err = e.group.StartS3(ctx, servers.S3Config{Dir: e.path("s3"), LogFile: e.path("s3.log")}); err != nil {
		return err
	}
	access := e.s3.Access
	if e.raw, err = minio.New(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{Region: access.Region,
		Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")}); err != nil {
		return err
	}
	binary, err := setup.FindBinary(servers.RuntimeBinary)
	if err != nil {
		return err
	}
	return e.group.Run(ctx, servers.Spec{Name: "the migration", Path: binary, Args: []string{"migrate"}, LogFile: e.path("migrate.log"),
		Env: servers.StoreSettings(e.db.URL(database), access)})
}

func (e *environment) startKubernetes(ctx context.Context) (err error) {
	if e.kube, err = controlplane.Start(ctx, e.group, controlplane.Config{Dir: e.path("kubernetes"), LogDir: e.dir, Volatile: true}); err != nil {
		return err
	}
	e.access = rest.CopyConfig(e.kube.Config)
	e.access.QPS, e.access.Timeout = -1, requestTimeout
	manifests, err := kubeapply.Read("default/namespace.yaml", "crd/bases", "rbac")
	if err != nil {
		return err
	}
	if err := kubeapply.Apply(ctx, e.access, fieldManager, manifests...); err != nil {
		return err
	}
	if err := e.kube.StartControllers(ctx); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if e.admin, err = client.New(e.access, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return e.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

// newOperator prepares the shipped operator with the permissions of its service account.
func (e *environment) newOperator(ctx context.Context, name string) (*operator, error) {
	binary, err := setup.FindBinary(operatorBinary)
	if err != nil {
		return nil, err
	}
	o := &operator{name: name, group: e.group}
	access := e.s3.Access
	for proxy, target := range map[**faults.Proxy]string{
		&o.kube: strings.TrimPrefix(e.access.Host, "https://"),
		&o.db:   fmt.Sprintf("127.0.0.1:%d", e.db.Port),
		&o.s3:   strings.TrimPrefix(access.Endpoint, "http://"),
	} {
		if *proxy, err = faults.StartProxy(target); err != nil {
			return nil, err
		}
	}
	kubeconfig, err := e.kubeconfigThrough(ctx, o)
	if err != nil {
		return nil, err
	}
	through, err := url.Parse(e.db.URL(database))
	if err != nil {
		return nil, err
	}
	through.Host = o.db.String()
	access.Endpoint = "http://" + o.s3.String()
	o.spec = servers.OperatorSpec(servers.OperatorConfig{
		Name: name, Binary: binary, LogFile: e.path(strings.ReplaceAll(name, " ", "-") + ".log"), Kubeconfig: kubeconfig, LeaderElection: operatorNamespace,
		Env: append(servers.StoreSettings(through.String(), access), "SERVICE_BASE_URL="+e.runtime.BaseURL,
			// More I/O than by default, to be killed at.
			"SERVICE_BUCKET_CHECK_INTERVAL=10s", "SERVICE_USAGE_INTERVAL=10s"),
	})
	return o, nil
}

// kubeconfigThrough writes a kubeconfig of the operator's service account that passes its proxy.
func (e *environment) kubeconfigThrough(ctx context.Context, o *operator) (string, error) {
	path, err := e.kube.ServiceAccountKubeconfig(ctx, operatorNamespace, operatorAccount)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + o.kube.String()
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	own := e.path("kubeconfig-" + strings.ReplaceAll(o.name, " ", "-"))
	return own, servers.WritePrivate(own, content)
}

// supervise keeps an operator running until ctx ends, as a Deployment does.
func (o *operator) supervise(ctx context.Context, failed func(format string, args ...any)) {
	for ctx.Err() == nil {
		process, err := o.group.Start(ctx, o.spec)
		if err != nil {
			failed("%s could not be started: %v", o.name, err)
			return
		}
		o.mu.Lock()
		o.process = process
		o.mu.Unlock()
		select {
		case <-process.Done():
			if process.Err() != nil {
				o.mu.Lock()
				o.exits++
				o.mu.Unlock()
			}
			faults.Sleep(ctx, restartPause)
		case <-ctx.Done():
			process.Stop()
		}
	}
}

// restartPause is the pause before an operator that has ended is started again.
const restartPause = 100 * time.Millisecond

func (o *operator) current() *servers.Process {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.process
}

func (o *operator) proxies() []*faults.Proxy { return []*faults.Proxy{o.kube, o.db, o.s3} }

func (e *environment) close(keep bool) {
	for _, o := range e.operators {
		for _, p := range o.proxies() {
			p.Close()
		}
	}
	e.group.Close()
	if !keep {
		_ = os.RemoveAll(e.dir)
	}
}
