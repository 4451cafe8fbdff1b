package servers

import (
	"context"
	"errors"
	"fmt"
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

	"mediastack.dev/hack/setup"
)

const (
	// etcd listens on this socket in the control plane's directory, which only its owner can enter.
	etcdSocket = "etcd.sock"
	// tokenLife is longer than any stack runs; each start issues new tokens.
	tokenLife = 365 * 24 * time.Hour
)

// KubernetesConfig configures a control plane.
type KubernetesConfig struct {
	// Dir holds etcd's data, the keys and the kubeconfigs; it is made when absent.
	Dir string
	// LogDir is the directory that takes the two logs.
	LogDir string
	// Port is the API server's port; zero chooses a free one.
	Port int
	// Volatile trades safety against a crash of the machine for speed. Tests only.
	Volatile bool
}

// Kubernetes is a running etcd with a kube-apiserver. It is no envtest.Environment of
// controller-runtime: that one's processes outlive a supervisor that is killed and end without
// notice, and its etcd answers every user of the machine.
type Kubernetes struct {
	// Etcd and APIServer are the two processes.
	Etcd, APIServer *Process
	// Port is the API server's port.
	Port int
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Config is the administrator's access.
	Config *rest.Config

	dir string
}

// StartKubernetes starts etcd and a kube-apiserver with RBAC on, which speaks TLS on loopback only.
func (g *Group) StartKubernetes(ctx context.Context, config KubernetesConfig) (*Kubernetes, error) {
	tools, err := setup.FindKube()
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{dir: config.Dir}
	if k.Port, err = ChoosePort(config.Port); err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the control plane's directory: %w", err)
	}
	if err := g.startEtcd(ctx, k, tools.Etcd, config); err != nil {
		return nil, err
	}
	if err := g.startAPIServer(ctx, k, tools.APIServer, config); err != nil {
		k.Etcd.Stop()
		return nil, err
	}
	return k, nil
}

func (k *Kubernetes) path(name string) string { return filepath.Join(k.dir, name) }

func (g *Group) startEtcd(ctx context.Context, k *Kubernetes, binary string, config KubernetesConfig) (err error) {
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
	k.Etcd, err = g.Start(ctx, Spec{
		Name: "etcd", Path: binary, Args: args, Dir: k.dir, LogFile: filepath.Join(config.LogDir, "etcd.log"),
		Ready: func(context.Context) error { _, err := os.Stat(k.path(etcdSocket)); return err },
	})
	return err
}

func (g *Group) startAPIServer(ctx context.Context, k *Kubernetes, binary string, config KubernetesConfig) error {
	// The certificate is made anew at every start: it lasts a year, and a dev stack's data longer.
	if err := os.RemoveAll(k.path("certs")); err != nil {
		return err
	}
	if err := k.makeSigningKey(); err != nil {
		return fmt.Errorf("make the key that signs tokens: %w", err)
	}
	admin := RandomSecret(32)
	if err := writePrivate(k.path("tokens.csv"), []byte(admin+",admin,admin,system:masters\n")); err != nil {
		return err
	}
	var err error
	k.APIServer, err = g.Start(ctx, Spec{
		Name: "kube-apiserver", Path: binary, Dir: k.dir, LogFile: filepath.Join(config.LogDir, "kube-apiserver.log"),
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
			// It waits for default service accounts, which a controller manager would make.
			"--disable-admission-plugins", "ServiceAccount",
		},
		Ready: func(ctx context.Context) error { return k.ready(ctx, admin) },
	})
	if err != nil {
		return err
	}
	k.Kubeconfig = k.path("kubeconfig")
	return k.writeKubeconfig(k.Kubeconfig, k.Config)
}

// makeSigningKey makes the key of service accounts' tokens, which lasts as long as the data.
func (k *Kubernetes) makeSigningKey() error {
	path := k.path("service-account.key")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return writePrivate(path, key)
}

// ready reports whether the API server can be used, and keeps the access to it.
func (k *Kubernetes) ready(ctx context.Context, token string) error {
	authority, err := os.ReadFile(k.path("certs/apiserver.crt"))
	if err != nil {
		return err
	}
	config := &rest.Config{Host: "https://" + loopback(k.Port), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	k.Config = config
	return answers(client, config.Host+"/readyz")(ctx)
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a service account, so that RBAC decides
// what its bearer may do.
func (k *Kubernetes) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (path string, err error) {
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

func (k *Kubernetes) writeKubeconfig(path string, config *rest.Config) error {
	const name = "mediastack"
	content, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return err
	}
	return writePrivate(path, content)
}

// writePrivate replaces a file at once, readable by its owner only.
func writePrivate(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
