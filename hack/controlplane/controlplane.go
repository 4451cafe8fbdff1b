// Package controlplane starts a control plane of Kubernetes, without nodes, as a supervisor of hack/servers does. It is apart
// from hack/servers because it links the clients of Kubernetes, which most programs and tests with servers do not use.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

const (
	// etcd listens on this socket in the control plane's directory, which only its owner can enter.
	etcdSocket = "etcd.sock"
	// tokenLife is longer than any stack runs; each start issues new tokens.
	tokenLife = 365 * 24 * time.Hour
)

// Config configures a control plane.
type Config struct {
	// Dir holds etcd's data, the keys and the kubeconfigs; it is made when absent.
	Dir string
	// LogDir is the directory that takes the logs.
	LogDir string
	// Port is the API server's port; zero chooses a free one.
	Port int
	// Volatile trades safety against a crash of the machine, and memory, for speed. Tests only.
	Volatile bool
}

// ControlPlane is a running etcd with a kube-apiserver and a few controllers. It is no
// envtest.Environment of controller-runtime: that one has no controllers, its processes outlive a
// supervisor that is killed and end without notice, and its etcd answers every user of the machine.
type ControlPlane struct {
	// Etcd, APIServer and Controllers are the processes. Controllers is nil before
	// StartControllers.
	Etcd, APIServer, Controllers *servers.Process
	// Port is the API server's port.
	Port int
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Config is the administrator's access.
	Config *rest.Config

	dir       string
	group     *servers.Group
	logDir    string
	tools     setup.KubeTools
	env       []string // of each process
	apiServer servers.Spec
}

// Start starts etcd and a kube-apiserver with RBAC on, which speaks TLS on loopback only.
// StartControllers adds the controllers.
func Start(ctx context.Context, group *servers.Group, config Config) (*ControlPlane, error) {
	tools, err := setup.FindKube()
	if err != nil {
		return nil, err
	}
	k := &ControlPlane{dir: config.Dir, group: group, logDir: config.LogDir, tools: tools}
	if config.Volatile {
		k.env = []string{"GOGC=400"} // tests lack processor time, not memory
	}
	if k.Port, err = servers.ChoosePort(config.Port); err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the control plane's directory: %w", err)
	}
	if err := k.startEtcd(ctx, config); err != nil {
		return nil, err
	}
	if err := k.startAPIServer(ctx); err != nil {
		k.Etcd.Stop()
		return nil, err
	}
	return k, nil
}

// Attach returns a control plane that another process started, which can't be stopped here.
// The directory takes the kubeconfigs.
func Attach(config *rest.Config, dir string) (*ControlPlane, error) {
	k := &ControlPlane{Config: config, dir: dir}
	k.Kubeconfig = k.path("kubeconfig")
	return k, k.writeKubeconfig(k.Kubeconfig, config)
}

// Use returns the cluster of a kubeconfig, which can't be stopped here. The kubeconfigs of service accounts
// are written beside it.
func Use(kubeconfig string) (*ControlPlane, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return &ControlPlane{Config: config, Kubeconfig: kubeconfig, dir: filepath.Dir(kubeconfig)}, nil
}

func (k *ControlPlane) path(name string) string { return filepath.Join(k.dir, name) }

func (k *ControlPlane) startEtcd(ctx context.Context, config Config) (err error) {
	if err := os.Remove(k.path(etcdSocket)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{
		"--data-dir", "etcd", "--log-level", "warn",
		"--listen-client-urls", "unix://" + etcdSocket, "--advertise-client-urls", "unix://" + etcdSocket,
		"--listen-peer-urls", "http://127.0.0.1:0",
	}
	if config.Volatile {
		args = append(args, "--unsafe-no-fsync")
	}
	k.Etcd, err = k.group.Start(ctx, servers.Spec{
		Name: "etcd", Path: k.tools.Etcd, Args: args, Env: k.env, Dir: k.dir, LogFile: filepath.Join(config.LogDir, "etcd.log"),
		Ready: func(context.Context) error { _, err := os.Stat(k.path(etcdSocket)); return err },
	})
	return err
}

func (k *ControlPlane) startAPIServer(ctx context.Context) error {
	// The certificate is made anew at every start: it lasts a year, and a dev stack's data longer.
	if err := os.RemoveAll(k.path("certs")); err != nil {
		return err
	}
	if err := k.makeSigningKey(); err != nil {
		return fmt.Errorf("make the key that signs tokens: %w", err)
	}
	admin := servers.RandomSecret(32)
	if err := servers.WritePrivate(k.path("tokens.csv"), []byte(admin+",admin,admin,system:masters\n")); err != nil {
		return err
	}
	k.apiServer = servers.Spec{
		Name: "kube-apiserver", Path: k.tools.APIServer, Env: k.env, Dir: k.dir, LogFile: filepath.Join(k.logDir, "kube-apiserver.log"),
		Args: []string{
			"--etcd-servers", "unix://" + etcdSocket,
			"--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(k.Port), "--cert-dir", "certs",
			"--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
			"--token-auth-file", "tokens.csv", "--anonymous-auth=false",
			"--authorization-mode", "RBAC", "--allow-privileged", "--profiling=false",
			"--service-cluster-ip-range", "10.96.0.0/16",
			"--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", "service-account.key",
			"--service-account-signing-key-file", "service-account.key",
		},
		Ready: func(ctx context.Context) error { return k.ready(ctx, admin) },
	}
	if err := k.RestartAPIServer(ctx); err != nil {
		return err
	}
	k.Kubeconfig = k.path("kubeconfig")
	return k.writeKubeconfig(k.Kubeconfig, k.Config)
}

// RestartAPIServer starts a kube-apiserver that has ended again, at its address and with the
// tokens and the certificate that it had.
func (k *ControlPlane) RestartAPIServer(ctx context.Context) (err error) {
	k.APIServer, err = k.group.Start(ctx, k.apiServer)
	return err
}

// StartControllers starts the controllers whose effects an operator meets (hack/kube/controllers). The
// garbage collector looks for new resource definitions every 30 s only: those that are applied before
// StartControllers are collected from the start.
func (k *ControlPlane) StartControllers(ctx context.Context) (err error) {
	k.Controllers, err = k.group.Start(ctx, servers.Spec{
		Name: "kube-controllers", Path: k.tools.Controllers, Env: k.env, Dir: k.dir, LogFile: filepath.Join(k.logDir, "kube-controllers.log"),
		// The default of 20 requests per second would delay the deletion of many namespaces.
		Args:  []string{"--kubeconfig", k.Kubeconfig, "--kube-api-qps", "200", "--kube-api-burst", "400"},
		Ready: k.controllersReady,
	})
	return err
}

// controllersReady reports whether the controllers run: one of them creates the default service
// account.
func (k *ControlPlane) controllersReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(k.Config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// makeSigningKey makes the key of service accounts' tokens, which lasts as long as the data.
func (k *ControlPlane) makeSigningKey() error {
	path := k.path("service-account.key")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return servers.WritePrivate(path, key)
}

// ready reports whether the API server can be used, and keeps the access to it.
func (k *ControlPlane) ready(ctx context.Context, token string) error {
	authority, err := os.ReadFile(k.path("certs/apiserver.crt"))
	if err != nil {
		return err
	}
	config := &rest.Config{Host: "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(k.Port)), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	k.Config = config
	return servers.AnswersTo(client, config.Host+"/readyz")(ctx)
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a service account, so that RBAC decides
// what its bearer may do.
func (k *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (path string, err error) {
	client, err := kubernetes.NewForConfig(k.Config)
	if err != nil {
		return "", err
	}
	seconds := int64(tokenLife.Seconds())
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("issue a token for the service account %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(k.Config)
	config.BearerToken = token.Status.Token
	path = k.path("kubeconfig-" + namespace + "-" + name)
	return path, k.writeKubeconfig(path, config)
}

func (k *ControlPlane) writeKubeconfig(path string, config *rest.Config) error {
	const name = "mediastack"
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	content, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
		}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return err
	}
	return servers.WritePrivate(path, content)
}
