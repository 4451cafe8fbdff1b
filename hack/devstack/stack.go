package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/controlplane"
	"mediastack.dev/hack/daemon"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

const (
	runtimeBinary  = "mediastack-runtime"
	operatorBinary = "mediastack-operator"
	database       = "mediastack"

	operatorNamespace = "mediastack-system"
	operatorAccount   = "mediastack-operator"
	sampleNamespace   = "team-a"
	sampleName        = "demo"

	fieldManager = "mediastack-dev"
	pollEvery    = 100 * time.Millisecond
)

// stack is one run of the dev stack.
type stack struct {
	*runCommand

	data     *dataDir
	group    *servers.Group
	progress *daemon.Progress

	state    state
	runtime  string // paths of the two shipped programs
	operator string
	config   *rest.Config

	postgres     *servers.Postgres
	s3           *servers.S3
	kube         *controlplane.ControlPlane
	operatorProc *servers.Process

	description description
}

// start brings everything up, in the order of their dependencies.
func (s *stack) start(ctx context.Context) error {
	// What an earlier run left behind would writeDescription a stack that does not run.
	if err := s.data.removeDescription(); err != nil {
		return err
	}
	saved, fresh, err := s.data.loadState()
	if err != nil {
		return err
	}
	s.state = saved
	if s.runtime, err = setup.FindBinary(runtimeBinary); err != nil {
		return err
	}
	if s.operator, err = setup.FindBinary(operatorBinary); err != nil {
		return err
	}
	if err := s.choosePorts(); err != nil {
		return err
	}
	if s.state.Cluster, err = s.chooseCluster(fresh); err != nil {
		return err
	}
	if err := s.data.writeJSON(stateFile, s.state); err != nil {
		return err
	}
	if err := s.startServers(ctx, fresh); err != nil {
		return err
	}
	if err := s.startProduct(ctx); err != nil {
		return err
	}
	kube, err := newKubeClient(s.config)
	if err != nil {
		return err
	}
	account, err := s.waitReady(ctx, kube)
	if err != nil {
		return err
	}
	return s.writeDescription(ctx, kube, account)
}

// choosePorts settles every port: a flag's, else the last run's where it is free, else any.
func (s *stack) choosePorts() error {
	saved := &s.state.Ports
	for _, choice := range []struct {
		flag    string
		flagged int
		saved   *int
	}{
		{"port", s.Ports.API, &saved.API},
		{"admin-port", s.Ports.Admin, &saved.Admin},
		{"postgres-port", s.Ports.Postgres, &saved.Postgres},
		{"s3-port", s.Ports.S3, &saved.S3},
		{"kube-port", s.Ports.Kube, &saved.Kube},
		{"smtp-port", s.Ports.SMTP, &saved.SMTP},
		{"operator-health-port", s.Ports.OperatorHealth, &saved.OperatorHealth},
		{"operator-metrics-port", s.Ports.OperatorMetrics, &saved.OperatorMetrics},
	} {
		if choice.flagged != 0 {
			port, err := servers.ChoosePort(choice.flagged)
			if err != nil {
				return fmt.Errorf("%w; choose another with --%s, or let it be chosen", err, choice.flag)
			}
			*choice.saved = port
			continue
		}
		port, err := servers.ChoosePort(*choice.saved)
		if err != nil {
			if port, err = servers.FreePort(); err != nil {
				return err
			}
		}
		*choice.saved = port
	}
	return nil
}

func (s *stack) log(name string) string { return s.data.path(filepath.Join("logs", name)) }

// startServers starts what the product depends on.
func (s *stack) startServers(ctx context.Context, fresh bool) error {
	postgresDir, outside, err := s.data.postgresDir(fresh)
	if err != nil {
		return err
	}
	if outside {
		s.progress.Printf("the user postgres cannot read %s: the database is in %s", s.data.dir, postgresDir)
	}
	if s.state.Cluster != "" {
		if err := s.useCluster(ctx); err != nil {
			return err
		}
		s.progress.Printf("starting PostgreSQL, the S3 store and the mail sink")
	} else {
		s.progress.Printf("starting PostgreSQL, the S3 store, the mail sink and the Kubernetes API server")
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		s.postgres, err = s.group.StartPostgres(ctx, servers.PostgresConfig{
			Dir: postgresDir, LogFile: s.log("postgres.log"), TCP: true, Port: s.state.Ports.Postgres, Password: s.state.PostgresPassword,
		})
		if err != nil {
			return err
		}
		if err := s.postgres.CreateDatabase(ctx, database); err != nil {
			return err
		}
		s.progress.Printf("PostgreSQL is ready on port %d", s.postgres.Port)
		return nil
	})
	group.Go(func() (err error) {
		s.s3, err = s.group.StartS3(ctx, servers.S3Config{
			Dir: s.data.path("s3"), LogFile: s.log("s3.log"), Port: s.state.Ports.S3,
			AccessKey: s.state.S3AccessKey, SecretKey: s.state.S3SecretKey,
		})
		if err == nil {
			s.progress.Printf("the S3 store is ready on port %d", s.s3.Port)
		}
		return err
	})
	group.Go(func() error {
		_, address, err := s.group.StartMailSink(ctx, s.state.Ports.SMTP, s.log("mailsink.log"))
		if err == nil {
			s.progress.Printf("the mail sink is ready on %s", address)
		}
		return err
	})
	group.Go(func() (err error) {
		if s.state.Cluster != "" {
			return nil
		}
		s.kube, err = controlplane.Start(ctx, s.group, controlplane.Config{
			Dir: s.data.path("kubernetes"), LogDir: s.data.path("logs"), Port: s.state.Ports.Kube,
		})
		if err == nil {
			s.progress.Printf("the Kubernetes API server is ready on port %d", s.kube.Port)
		}
		return err
	})
	return group.Wait()
}

// startProduct applies the manifests and starts the operator and the runtime.
func (s *stack) startProduct(ctx context.Context) error {
	s.config = rest.CopyConfig(s.kube.Config)
	s.config.QPS = -1 // the limit is meant for many clients
	product, both := errgroup.WithContext(ctx)
	product.Go(func() error {
		if err := s.group.Run(both, s.runtimeSpec("the database migration", "migrate.log", "migrate")); err != nil {
			return err
		}
		s.progress.Printf("the database is migrated")
		_, err := s.group.Start(both, s.serveSpec())
		if err == nil {
			s.progress.Printf("the runtime is ready at %s", s.baseURL())
		}
		return err
	})
	product.Go(func() error {
		if err := s.apply(both, "the resource definitions, the admission policy and the operator's rights", manifests...); err != nil {
			return err
		}
		if s.state.Cluster != "" {
			return nil
		}
		err := s.kube.StartControllers(both)
		if err == nil {
			s.progress.Printf("the Kubernetes controllers are ready")
		}
		return err
	})
	if err := product.Wait(); err != nil {
		return err
	}

	kubeconfig, err := s.kube.ServiceAccountKubeconfig(ctx, operatorNamespace, operatorAccount)
	if err != nil {
		return err
	}
	if s.operatorProc, err = s.group.Start(ctx, s.operatorSpec(kubeconfig)); err != nil {
		return err
	}
	s.progress.Printf("the operator is ready")
	if err := s.waitDeleted(ctx, sampleNamespace); err != nil {
		return fmt.Errorf("wait until the namespace %s, which is terminating, is gone: %w", sampleNamespace, err)
	}
	return s.apply(ctx, "the samples", "samples")
}

// waitDeleted waits until a namespace that is terminating is gone: it may have been deleted
// shortly before the last run ended. It returns at once when the namespace is not terminating,
// or does not exist.
func (s *stack) waitDeleted(ctx context.Context, name string) error {
	core, err := corev1client.NewForConfig(s.config)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, pollEvery, s.ReadyTimeout, true, func(ctx context.Context) (bool, error) {
		namespace, err := core.Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && namespace.DeletionTimestamp == nil, err
	})
}

// apply applies the manifests of files and directories of config/.
func (s *stack) apply(ctx context.Context, what string, paths ...string) error {
	objects, err := kubeapply.Read(paths...)
	if err != nil {
		return fmt.Errorf("read the manifests: %w", err)
	}
	if err := kubeapply.Apply(ctx, s.config, fieldManager, objects...); err != nil {
		return err
	}
	s.progress.Printf("%s are applied (%d objects)", what, len(objects))
	return nil
}

func (s *stack) baseURL() string { return "http://" + address(s.state.Ports.API) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// storeEnv is what the operator and the runtime have in common.
func (s *stack) storeEnv() []string {
	return append(servers.StoreSettings(s.postgres.URL(database), s.s3.Access), "SERVICE_BASE_URL="+s.baseURL(), "SERVICE_CELL="+cmp.Or(os.Getenv("SERVICE_CELL"), "0"))
}

// inheritedEnv is what the caller set of the settings and the trusted certification authorities, for trying them out.
func inheritedEnv() []string {
	var env []string
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if strings.HasPrefix(name, "SERVICE_") || name == "SSL_CERT_FILE" || name == "SSL_CERT_DIR" {
			env = append(env, setting)
		}
	}
	return env
}

// defaultEnv is what the caller may change: mail goes to the sink, pages of any port of
// this machine may call the service, and developers log in more often than users.
func (s *stack) defaultEnv() []string {
	return []string{
		"SERVICE_LOG_FORMAT=text",
		"SERVICE_CORS_ORIGINS=http://localhost:*",
		"SERVICE_SMTP_HOST=127.0.0.1",
		"SERVICE_SMTP_PORT=" + strconv.Itoa(s.state.Ports.SMTP),
		"SERVICE_SMTP_TLS=none",
		"SERVICE_MAIL_FROM=login@mediastack.localhost",
		"SERVICE_DRAIN_DELAY=0s",
		"SERVICE_LOGIN_CODES_PER_EMAIL=100",
		"SERVICE_LOGIN_ATTEMPTS_PER_EMAIL=100",
		"SERVICE_LOGIN_CODES_PER_IP=1000",
	}
}

// runtimeEnv is the environment of the runtime's processes. What the stack itself
// decides stands last, and wins.
func (s *stack) runtimeEnv() []string {
	return slices.Concat(s.defaultEnv(), inheritedEnv(), s.storeEnv(), []string{
		"SERVICE_SECRET=" + s.state.ServerSecret,
		"SERVICE_LISTEN=" + address(s.state.Ports.API),
		"SERVICE_ADMIN_LISTEN=" + address(s.state.Ports.Admin),
	})
}

func (s *stack) runtimeSpec(name, logFile string, args ...string) servers.Spec {
	return servers.Spec{
		Name: name, Path: s.runtime, Args: args, LogFile: s.log(logFile),
		Env:          s.runtimeEnv(),
		OrphanSignal: syscall.SIGTERM,
	}
}

func (s *stack) serveSpec() servers.Spec {
	spec := s.runtimeSpec("the runtime", "runtime.log", "serve")
	spec.Ready = servers.Answers("http://" + address(s.state.Ports.Admin) + "/readyz")
	return spec
}

// operatorEnv is the environment of the operator. By default an upload shows in the account's status soon.
func (s *stack) operatorEnv() []string {
	return slices.Concat([]string{"SERVICE_LOG_FORMAT=text", "SERVICE_USAGE_INTERVAL=10s"}, inheritedEnv(), s.storeEnv())
}

func (s *stack) operatorSpec(kubeconfig string) servers.Spec {
	spec := servers.OperatorSpec(servers.OperatorConfig{
		Name: "the operator", Binary: s.operator, LogFile: s.log("operator.log"), Kubeconfig: kubeconfig, LeaderElection: operatorNamespace,
		Health: address(s.state.Ports.OperatorHealth), Metrics: address(s.state.Ports.OperatorMetrics), Env: s.operatorEnv(),
	})
	spec.OrphanSignal = syscall.SIGTERM
	return spec
}

// waitReady waits until the sample account's condition Ready is True, and prints what it waits for.
func (s *stack) waitReady(ctx context.Context, kube client.Client) (*v1alpha1.MediaAccount, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.ReadyTimeout, fmt.Errorf("it was not ready after %s", s.ReadyTimeout))
	defer cancel()
	dead := make(chan error, 1)
	go func() { dead <- s.group.Dead(ctx) }()
	printed := ""
	for {
		var account v1alpha1.MediaAccount
		err := kube.Get(ctx, sampleAccount, &account)
		if err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("read the MediaAccount %s: %w", sampleAccount, err)
		}
		now := "the operator has not reconciled it yet"
		if ready := meta.FindStatusCondition(account.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			if ready.Status != metav1.ConditionTrue {
				now = ready.Reason + ": " + ready.Message
				if ready.Reason == v1alpha1.ReasonRetained {
					if err := restoreSample(ctx, kube); err != nil && ctx.Err() == nil {
						return nil, err
					}
				}
			} else if account.Status.Endpoints != nil && account.Status.Endpoints.REST == s.baseURL() { // what an earlier run left may name another port
				s.progress.Printf("the MediaAccount %s is Ready", sampleAccount)
				return &account, nil
			}
		}
		if now != printed {
			s.progress.Printf("waiting for the MediaAccount %s (%s)", sampleAccount, now)
			printed = now
		}
		select {
		case err := <-dead:
			if err != nil {
				return nil, err
			}
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return nil, fmt.Errorf("the MediaAccount %s did not become Ready: %w (%s); the operator's log is %s", sampleAccount, cause, now, s.operatorProc.LogFile())
			}
			return nil, context.Canceled
		case <-time.After(pollEvery):
		}
	}
}

// writeDescription collects what a user needs and writes it into stack.json, and for shells
// into stack.env.
func (s *stack) writeDescription(ctx context.Context, kube client.Client, account *v1alpha1.MediaAccount) error {
	apiKey, mcpURL, err := readKey(ctx, kube)
	if err != nil {
		return err
	}
	root, err := setup.RepoRoot()
	if err != nil {
		return err
	}
	access := s.s3.Access
	s.description = description{
		BaseURL:     s.baseURL(),
		MCPURL:      mcpURL,
		AdminURL:    "http://" + address(s.state.Ports.Admin),
		APIKey:      apiKey,
		Owner:       string(account.Spec.Owners[0]),
		Account:     sampleAccount.String(),
		Kubeconfig:  s.kube.Kubeconfig,
		Kubectl:     kubectl(),
		DatabaseURL: s.postgres.URL(database),
		S3: s3Description{
			Endpoint: access.Endpoint, Region: access.Region,
			AccessKey: access.AccessKey, SecretKey: access.SecretKey, Bucket: account.Status.Bucket,
		},
		SMTP:     address(s.state.Ports.SMTP),
		Picture:  filepath.Join(root, "docs", "login.png"),
		Download: s.data.path("login.webp"),
		Logs:     s.data.path("logs"),
		Runtime:  s.runtime,
		Env:      s.data.path(envFile),
	}
	if err := servers.WritePrivate(s.data.path(envFile), shellLines(s.runtimeEnv())); err != nil {
		return err
	}
	return s.data.writeJSON(descriptionFile, s.description)
}

// shellLines sets variables in any shell.
func shellLines(env []string) []byte {
	var text strings.Builder
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		fmt.Fprintf(&text, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return []byte(text.String())
}

// kubectl is the path of the kubectl that fits the API server, or just its name.
func kubectl() string {
	if tools, err := setup.FindKube(); err == nil && tools.Kubectl != "" {
		return tools.Kubectl
	}
	return "kubectl"
}

// stop ends every process, the last started first: those that use others are the later ones.
func (s *stack) stop() {
	if err := s.data.removeDescription(); err != nil {
		s.progress.Printf("%v", err)
	}
	s.group.Close()
}
