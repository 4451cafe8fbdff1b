package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"mediastack.dev/hack/setup"
)

// KubernetesConfig says how to run a control plane.
type KubernetesConfig struct {
	// Dir holds etcd's data and the certificates; it is made when absent.
	Dir string
	// LogDir is the folder that takes the two logs.
	LogDir string
	// Port is the API server's port; zero chooses a free one.
	Port int
	// Volatile trades safety against a crash of the machine for speed. Tests only.
	Volatile bool
}

// Kubernetes is a running etcd with a kube-apiserver.
type Kubernetes struct {
	// Etcd and APIServer are the two processes.
	Etcd, APIServer *Process
	// Port is the API server's port.
	Port int
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	dir       string
	authority *authority
}

// StartKubernetes starts etcd and a kube-apiserver with RBAC on. Both speak TLS on loopback only, and
// want a client certificate.
func (g *Group) StartKubernetes(ctx context.Context, config KubernetesConfig) (*Kubernetes, error) {
	tools, err := setup.FindKube()
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{dir: config.Dir}
	if k.Port, err = ChoosePort(config.Port); err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	admin, err := k.prepare()
	if err != nil {
		return nil, fmt.Errorf("make the control plane's certificates: %w", err)
	}
	etcdURL, err := g.startEtcd(ctx, k, tools.Etcd, config)
	if err != nil {
		return nil, err
	}
	if err := g.startAPIServer(ctx, k, tools.APIServer, etcdURL, config, admin); err != nil {
		k.Etcd.Stop()
		return nil, err
	}
	return k, nil
}

// prepare makes the authorities, the keys and the administrator's kubeconfig. The leaf certificates
// are made anew at every start; only the authorities and the signing key of tokens have to last.
func (k *Kubernetes) prepare() (admin keyPair, err error) {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return keyPair{}, err
	}
	if k.authority, err = loadAuthority(k.dir, "ca"); err != nil {
		return keyPair{}, err
	}
	// etcd trusts an authority of its own: a client of the API server must not read the store.
	etcdAuthority, err := loadAuthority(k.dir, "etcd-ca")
	if err != nil {
		return keyPair{}, err
	}
	for _, leaf := range []struct {
		file      string
		authority *authority
		subject   pkix.Name
		server    bool
	}{
		{"apiserver", k.authority, pkix.Name{CommonName: "kube-apiserver"}, true},
		{"etcd", etcdAuthority, pkix.Name{CommonName: "etcd"}, true},
		{"etcd-client", etcdAuthority, pkix.Name{CommonName: "kube-apiserver"}, false},
	} {
		pair, err := leaf.authority.issue(leaf.subject, leaf.server)
		if err != nil {
			return keyPair{}, err
		}
		if err := pair.write(k.dir, leaf.file); err != nil {
			return keyPair{}, err
		}
	}
	tokens := filepath.Join(k.dir, "service-account.key")
	if _, err := os.Stat(tokens); errors.Is(err, os.ErrNotExist) {
		_, key, err := makeKey()
		if err != nil {
			return keyPair{}, err
		}
		if err := writePrivate(tokens, key); err != nil {
			return keyPair{}, err
		}
	}
	if admin, err = k.authority.issue(pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, false); err != nil {
		return keyPair{}, err
	}
	k.Kubeconfig = filepath.Join(k.dir, "kubeconfig")
	return admin, writePrivate(k.Kubeconfig, kubeconfig(k.URL(), k.authority.pem, admin))
}

// URL is the API server's address.
func (k *Kubernetes) URL() string { return "https://" + loopback(k.Port) }

// ServiceAccountKubeconfig writes a kubeconfig that acts as a service account, so that RBAC decides
// what its bearer may do. It shows a certificate where a pod would show a token: it never runs out.
func (k *Kubernetes) ServiceAccountKubeconfig(namespace, name string) (path string, err error) {
	user := "system:serviceaccount:" + namespace + ":" + name
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	pair, err := k.authority.issue(pkix.Name{CommonName: user, Organization: groups}, false)
	if err != nil {
		return "", fmt.Errorf("make a certificate for %s: %w", user, err)
	}
	path = filepath.Join(k.dir, fmt.Sprintf("kubeconfig-%s-%s", namespace, name))
	return path, writePrivate(path, kubeconfig(k.URL(), k.authority.pem, pair))
}

func (g *Group) startEtcd(ctx context.Context, k *Kubernetes, binary string, config KubernetesConfig) (endpoint string, err error) {
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	endpoint = "https://" + loopback(port)
	client, err := k.httpClient("etcd-ca.crt", "etcd-client")
	if err != nil {
		return "", err
	}
	args := []string{
		"--data-dir", filepath.Join(k.dir, "etcd"),
		"--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
		"--listen-peer-urls", "http://127.0.0.1:0",
		"--cert-file", filepath.Join(k.dir, "etcd.crt"), "--key-file", filepath.Join(k.dir, "etcd.key"),
		"--client-cert-auth", "--trusted-ca-file", filepath.Join(k.dir, "etcd-ca.crt"),
		"--log-level", "warn",
	}
	if config.Volatile {
		args = append(args, "--unsafe-no-fsync")
	}
	k.Etcd, err = g.Start(ctx, Spec{
		Name:    "etcd",
		Path:    binary,
		Args:    args,
		LogFile: filepath.Join(config.LogDir, "etcd.log"),
		Ready:   answers(client, endpoint+"/readyz"),
	})
	return endpoint, err
}

func (g *Group) startAPIServer(ctx context.Context, k *Kubernetes, binary, etcdURL string, config KubernetesConfig, admin keyPair) error {
	if err := admin.write(k.dir, "admin"); err != nil {
		return err
	}
	client, err := k.httpClient("ca.crt", "admin")
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(k.dir, name) }
	k.APIServer, err = g.Start(ctx, Spec{
		Name: "kube-apiserver",
		Path: binary,
		Args: []string{
			"--etcd-servers", etcdURL, "--etcd-cafile", file("etcd-ca.crt"),
			"--etcd-certfile", file("etcd-client.crt"), "--etcd-keyfile", file("etcd-client.key"),
			"--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(k.Port),
			"--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
			"--tls-cert-file", file("apiserver.crt"), "--tls-private-key-file", file("apiserver.key"),
			"--client-ca-file", file("ca.crt"), "--anonymous-auth=false",
			"--authorization-mode", "RBAC", "--allow-privileged", "--profiling=false",
			"--service-cluster-ip-range", "10.96.0.0/16",
			"--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", file("service-account.key"),
			"--service-account-signing-key-file", file("service-account.key"),
			// It waits for default service accounts, which a controller manager would make.
			"--disable-admission-plugins", "ServiceAccount",
		},
		LogFile: filepath.Join(config.LogDir, "kube-apiserver.log"),
		Ready:   answers(client, k.URL()+"/readyz"),
	})
	return err
}

// httpClient trusts an authority and shows a client certificate.
func (k *Kubernetes) httpClient(authorityFile, pairName string) (*http.Client, error) {
	authorityPEM, err := os.ReadFile(filepath.Join(k.dir, authorityFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorityPEM)
	pair, err := tls.LoadX509KeyPair(filepath.Join(k.dir, pairName+".crt"), filepath.Join(k.dir, pairName+".key"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}}, nil
}

// Stop ends the API server, then etcd.
func (k *Kubernetes) Stop() {
	k.APIServer.Stop()
	k.Etcd.Stop()
}
