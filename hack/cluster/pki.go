package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"mediastack.dev/hack/certificate"
	"mediastack.dev/hack/servers"
)

// The keys of the cluster, in its data directory. A name has a certificate (.crt) and a key (.key).
const (
	authorityFile   = "keys/ca.crt"
	tokenKeyFile    = "keys/service-account.key"
	adminKubeconfig = "kubeconfig"
	certificateLife = 365 * 24 * time.Hour
)

// makeKeys makes all keys, certificates and kubeconfigs of a new cluster.
func (k *cluster) makeKeys() error {
	if err := os.Mkdir(k.data.path("keys"), 0o700); err != nil {
		return err
	}
	ca, err := certificate.NewAuthority("mediastack-cluster", certificateLife)
	if err != nil {
		return err
	}
	if err := k.writePair("ca", ca.Pair); err != nil {
		return err
	}
	tokenKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	if err := servers.WritePrivate(k.data.path(tokenKeyFile), tokenKey); err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(hostAddress), net.ParseIP(kubernetesIP)},
	}
	if err := k.issue(ca, "kube-apiserver", server); err != nil {
		return err
	}
	clients := map[string]pkix.Name{
		"admin":                   {CommonName: "admin", Organization: []string{"system:masters"}},
		"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
		"kube-scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":              {CommonName: "system:kube-proxy"},
		"kubelet-client":          {CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}},
		"front-proxy":             {CommonName: "front-proxy-client"},
	}
	for number := 1; number <= nodeCount; number++ {
		clients[nodeName(number)] = pkix.Name{CommonName: "system:node:" + nodeName(number), Organization: []string{"system:nodes"}}
	}
	for name, subject := range clients {
		err := k.issue(ca, name, &x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			return err
		}
		if err := k.writeKubeconfig(name); err != nil {
			return err
		}
	}
	return os.Rename(k.kubeconfig("admin"), k.data.path(adminKubeconfig))
}

// issue makes a key with a certificate.
func (k *cluster) issue(ca *certificate.Authority, name string, template *x509.Certificate) error {
	pair, err := ca.Issue(template)
	if err != nil {
		return err
	}
	return k.writePair(name, pair)
}

func (k *cluster) certificate(name string) string { return k.data.path("keys", name+".crt") }
func (k *cluster) key(name string) string         { return k.data.path("keys", name+".key") }
func (k *cluster) kubeconfig(name string) string  { return k.data.path("keys", name+".kubeconfig") }

func (k *cluster) writePair(name string, pair *certificate.Pair) error {
	return errors.Join(servers.WritePrivate(k.key(name), pair.KeyPEM), servers.WritePrivate(k.certificate(name), pair.PEM))
}

// writeKubeconfig writes the kubeconfig of the holder of a certificate.
func (k *cluster) writeKubeconfig(name string) error {
	content := make(map[string][]byte)
	for _, path := range []string{k.data.path(authorityFile), k.certificate(name), k.key(name)} {
		read, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		content[path] = read
	}
	const cluster = "mediastack-cluster"
	encoded, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{cluster: {Server: apiServerURL(), CertificateAuthorityData: content[k.data.path(authorityFile)]}},
		AuthInfos: map[string]*api.AuthInfo{name: {
			ClientCertificateData: content[k.certificate(name)], ClientKeyData: content[k.key(name)],
		}},
		Contexts:       map[string]*api.Context{cluster: {Cluster: cluster, AuthInfo: name}},
		CurrentContext: cluster,
	})
	if err != nil {
		return err
	}
	return servers.WritePrivate(k.kubeconfig(name), encoded)
}
