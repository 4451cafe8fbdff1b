// Package restore loses a whole installation, and restores it from its backups as the guide
// "Backup and restore" says: the shipped programs, with a real API server, PostgreSQL and S3.
package restore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/controlplane"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	testenv.Main(m)
}

const (
	database          = "media"
	operatorNamespace = "mediastack-system"
	operatorName      = "mediastack-operator"
	// baseURL is that of the service before and after the loss. Requests go to the runtime's address.
	baseURL = "https://media.example.org"
	// commandTimeout is for one command. Other tests may run meanwhile.
	commandTimeout = 4 * time.Minute
)

// site is a cluster with its operator and runtime, PostgreSQL and an S3 store.
type site struct {
	t       *testing.T
	dir     string
	group   *servers.Group
	kube    *controlplane.ControlPlane
	admin   client.Client
	db      *servers.Postgres
	s3      *servers.S3
	secret  string // SERVICE_SECRET
	runtime *servers.Runtime
	ran     []string // the commands of the service, as a user writes them
}

// newSite makes a site without servers. Everything ends with the test.
func newSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, dir: testenv.TempDir(t), group: testenv.Group(t), secret: servers.RandomSecret(32)}
}

var must = check.NoError

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// startPostgres starts the server on the files in the directory pg; it makes them if there are none.
func (s *site) startPostgres(settings map[string]string) {
	s.t.Helper()
	var err error
	s.db, err = s.group.StartPostgres(s.t.Context(), servers.PostgresConfig{Dir: s.path("pg"), LogFile: s.path("postgres.log"), Volatile: true, Settings: settings})
	must(s.t, err)
	must(s.t, s.db.CreateDatabase(s.t.Context(), database))
}

func (s *site) startS3() {
	s.t.Helper()
	var err error
	s.s3, err = s.group.StartS3(s.t.Context(), servers.S3Config{Dir: s.path("s3"), LogFile: s.path("s3.log")})
	must(s.t, err)
}

// startKubernetes starts an empty cluster, and installs what the chart installs before its pods run:
// the namespace, the definitions, and the rights of the operator.
func (s *site) startKubernetes() {
	s.t.Helper()
	ctx := s.t.Context()
	var err error
	s.kube, err = controlplane.Start(ctx, s.group, controlplane.Config{Dir: s.path("kube"), LogDir: s.dir, Volatile: true})
	must(s.t, err)
	manifests, err := kubeapply.Read("default/namespace.yaml", "crd/bases", "rbac")
	must(s.t, err)
	must(s.t, kubeapply.Apply(ctx, s.access(), "restore", manifests...))
	must(s.t, s.kube.StartControllers(ctx))
	scheme := kruntime.NewScheme()
	must(s.t, v1alpha1.AddToScheme(scheme))
	must(s.t, corev1.AddToScheme(scheme))
	s.admin, err = client.New(s.access(), client.Options{Scheme: scheme})
	must(s.t, err)
}

func (s *site) access() *rest.Config {
	config := rest.CopyConfig(s.kube.Config)
	config.QPS = -1
	return config
}

func (s *site) stores() []string { return servers.StoreSettings(s.db.URL(database), s.s3.Access) }

// startRuntime starts a replica of the runtime. It must become ready.
func (s *site) startRuntime() {
	s.t.Helper()
	var err error
	s.runtime, err = s.group.StartRuntime(s.t.Context(), servers.RuntimeConfig{
		LogDir: s.dir, BaseURL: baseURL, Secret: s.secret, Stores: s.stores(), Env: servers.Unlimited,
	})
	must(s.t, err)
}

// startOperator starts the operator with the rights of its service account. It notices everything soon.
func (s *site) startOperator(settings ...string) (stop func()) {
	s.t.Helper()
	kubeconfig, err := s.kube.ServiceAccountKubeconfig(s.t.Context(), operatorNamespace, operatorName)
	must(s.t, err)
	process, err := s.group.Start(s.t.Context(), servers.OperatorSpec(servers.OperatorConfig{
		Name: "the operator", Binary: testenv.Binary(s.t, servers.OperatorBinary), LogFile: s.path("operator.log"), Kubeconfig: kubeconfig,
		Env: slices.Concat(s.stores(), []string{
			"SERVICE_BASE_URL=" + baseURL, "SERVICE_NAMESPACE=" + operatorNamespace, "SERVICE_INSTALLATION_CHECK_INTERVAL=1s",
			"SERVICE_BUCKET_CHECK_INTERVAL=1s", "SERVICE_RETAINED_INTERVAL=1s", "SERVICE_ORPHAN_DELAY=1s", "SERVICE_TAKE_OVER_GRACE=0s",
		}, settings),
	}))
	must(s.t, err)
	return process.Stop
}

// run runs a command of a program with the settings of the service, and returns its exit code and the
// lines that it printed.
func (s *site) run(program string, args ...string) (code int, lines []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, testenv.Binary(s.t, program), args...)
	command.Env = append(s.stores(), "SERVICE_SECRET="+s.secret, "SERVICE_BASE_URL="+baseURL, "SERVICE_NAMESPACE="+operatorNamespace, "SERVICE_LOG_LEVEL=ERROR")
	if s.kube != nil {
		command.Env = append(command.Env, "KUBECONFIG="+s.kube.Kubeconfig)
	}
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	err := command.Run()
	s.ran = append(s.ran, strings.Join(append([]string{program}, args...), " "))
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.t.Fatalf("%s %q: %v", program, args, err)
	}
	s.t.Logf("%s %q: %v\n%s%s", program, args, err, out.String(), stderr.String())
	return command.ProcessState.ExitCode(), strings.Split(strings.TrimSpace(out.String()), "\n")
}

// succeeds runs a command that must exit with 0, and returns the last line.
func (s *site) succeeds(program string, args ...string) string {
	s.t.Helper()
	code, lines := s.run(program, args...)
	if code != 0 {
		s.t.Fatalf("%s %q: exit code %d\n%s", program, args, code, strings.Join(lines, "\n"))
	}
	return lines[len(lines)-1]
}

// lose ends every process of the site at once, and removes all its files.
func (s *site) lose() {
	s.t.Helper()
	s.group.KillAll()
	s.group.Close()
	must(s.t, os.RemoveAll(s.dir))
}

// sql returns the value of a statement of the superuser.
func (s *site) sql(statement string) (value string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.db.AdminURL(database))
	must(s.t, err)
	defer conn.Close(s.t.Context())
	must(s.t, conn.QueryRow(s.t.Context(), statement).Scan(&value))
	return value
}

// ready waits until the operator has handled the generation of a MediaAccount, and it is Ready.
func (s *site) ready(namespace, name string) *v1alpha1.MediaAccount {
	s.t.Helper()
	object := &v1alpha1.MediaAccount{}
	wait.UntilNone(s.t, func() string {
		must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
		condition := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
		if object.Status.ObservedGeneration != object.Generation || condition == nil || condition.Status != metav1.ConditionTrue {
			return namespace + "/" + name + " is not Ready: " + describe(object.Status.Conditions)
		}
		return ""
	})
	return object
}

func describe(conditions []metav1.Condition) string {
	var lines []string
	for _, c := range conditions {
		lines = append(lines, c.Type+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return strings.Join(lines, "; ")
}

// key returns the API key in the Secret of an app; "" without the Secret.
func (s *site) key(namespace, account, app string) string {
	s.t.Helper()
	secret := &corev1.Secret{}
	must(s.t, client.IgnoreNotFound(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: v1alpha1.SecretName(account, app)}, secret)))
	return string(secret.Data["apiKey"])
}

// apply applies a YAML text as an administrator does.
func (s *site) apply(text string) {
	s.t.Helper()
	objects, err := kubeapply.Parse(strings.NewReader(text))
	must(s.t, err)
	must(s.t, kubeapply.Apply(s.t.Context(), s.access(), "restore", objects...))
}
