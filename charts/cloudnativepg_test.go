package charts_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/hack/certificate"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

// sslRequest is the code with which a client of PostgreSQL asks for TLS.
const sslRequest = 80877103

// serveTLS passes connections on to a PostgreSQL server, with TLS as a server of CloudNativePG has it, and rejects
// connections without TLS. It returns its port.
func serveTLS(t *testing.T, pair *certificate.Pair, database *pgx.ConnConfig) int {
	t.Helper()
	keys, err := tls.X509KeyPair(pair.PEM, pair.KeyPEM)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	network, address := "tcp", net.JoinHostPort(database.Host, strconv.Itoa(int(database.Port)))
	if strings.HasPrefix(database.Host, "/") { // the folder of a socket
		network, address = "unix", filepath.Join(database.Host, ".s.PGSQL."+strconv.Itoa(int(database.Port)))
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				request := make([]byte, 8)
				if _, err := io.ReadFull(client, request); err != nil || binary.BigEndian.Uint32(request[4:]) != sslRequest {
					return
				}
				if _, err := client.Write([]byte("S")); err != nil {
					return
				}
				encrypted := tls.Server(client, &tls.Config{Certificates: []tls.Certificate{keys}, MinVersion: tls.VersionTLS13})
				server, err := net.Dial(network, address)
				if err != nil {
					return
				}
				defer server.Close()
				go func() {
					_, _ = io.Copy(server, encrypted)
					_ = server.Close()
				}()
				_, _ = io.Copy(encrypted, server)
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// cloudNativePG creates the two Secrets of a cluster of CloudNativePG 1.27 with each of their keys, and their types: the
// application's, whose URL has no sslmode, and the authority's. Only the host and the port are others: no Service is
// resolved here.
func (c *cluster) cloudNativePG(name, host string, port int, database *pgx.ConnConfig, authority *certificate.Authority) {
	c.t.Helper()
	at, user, password := net.JoinHostPort(host, strconv.Itoa(port)), database.User, database.Password
	login := url.UserPassword(user, password)
	query := url.Values{"user": {user}, "password": {password}}.Encode()
	c.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name + "-app", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "cloudnative-pg", "cnpg.io/cluster": name, "cnpg.io/reload": "true", "cnpg.io/userType": "app",
		}},
		Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{
			"username": user, "user": user, "password": password, "dbname": database.Database, "host": host, "port": strconv.Itoa(port),
			"pgpass":        strings.Join([]string{host, strconv.Itoa(port), database.Database, user, password}, ":") + "\n",
			"uri":           (&url.URL{Scheme: "postgresql", User: login, Host: at, Path: database.Database}).String(),
			"fqdn-uri":      (&url.URL{Scheme: "postgresql", User: login, Host: at, Path: database.Database}).String(),
			"jdbc-uri":      "jdbc:postgresql://" + at + "/" + database.Database + "?" + query,
			"fqdn-jdbc-uri": "jdbc:postgresql://" + at + "/" + database.Database + "?" + query,
		},
	}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name + "-ca", Labels: map[string]string{"cnpg.io/cluster": name}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{"ca.crt": authority.PEM, "ca.key": authority.KeyPEM},
	})
}

// authorities writes the certificates that the kubelet would mount into the pods, into a folder of the test. Only the key
// that the volume selects is there.
func (c *cluster) authorities(spec corev1.PodSpec) (dir string) {
	c.t.Helper()
	dir = testenv.TempDir(c.t)
	for _, volume := range spec.Volumes {
		if volume.Name != "trusted-ca" || volume.Secret == nil || len(volume.Secret.Items) != 1 {
			continue
		}
		secret, item := &corev1.Secret{}, volume.Secret.Items[0]
		must(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: volume.Secret.SecretName}, secret))
		must(c.t, os.WriteFile(filepath.Join(dir, item.Path), secret.Data[item.Key], 0o600))
		return dir
	}
	c.t.Fatalf("the pods do not have one key of a Secret as trusted-ca: %+v", spec.Volumes)
	return ""
}

// With the Secrets of CloudNativePG as they are, the programs verify the authority and the name of the server.
func TestCloudNativePG_SecretsAsTheyAreVerifyTheServer(t *testing.T) {
	t.Parallel()
	database, err := pgx.ParseConfig(testenv.EmptyPostgres(t))
	must(t, err)
	authority, err := certificate.NewAuthority("pg", time.Hour)
	must(t, err)
	other, err := certificate.NewAuthority("pg", time.Hour)
	must(t, err)
	for name, test := range map[string]struct {
		signer        *certificate.Authority
		names         []string
		sslMode, want string // want is in the log, if the program must not use the server
	}{
		"right":              {authority, []string{"localhost"}, "verify-full", ""},
		"another-authority":  {other, []string{"localhost"}, "verify-full", "certificate signed by unknown authority"},
		"another-name":       {authority, nil, "verify-full", "not localhost"},
		"name-is-unverified": {authority, nil, "verify-ca", ""},
		"without-tls":        {authority, []string{"localhost"}, "disable", "failed to receive message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kubetest.Shared(t), "cnpg-"+name)
			service := "pg-rw." + c.namespace
			pair, err := test.signer.Issue(&x509.Certificate{
				DNSNames:    append([]string{"pg-rw", service, service + ".svc", service + ".svc.cluster.local"}, test.names...),
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			})
			must(t, err)
			c.cloudNativePG("pg", "localhost", serveTLS(t, pair, database), database, authority)
			text, err := template(t, release, c.namespace, append(required, "--set=crds.install=false,database.secretName=pg-app,database.urlKey=uri,trustedCA.secretName=pg-ca,database.sslMode="+test.sslMode)...)
			must(t, err)
			all := kubetest.ParseManifests(t, text)
			c.create(find(t, all, "ConfigMap", release))
			spec, _ := podSpec(t, find(t, all, "Deployment", release+"-runtime"))
			code, out := c.command("mediastack-runtime", spec.InitContainers[0], "SERVICE_DATABASE_WAIT=0s", "SSL_CERT_DIR="+c.authorities(spec))
			if (code == 0) != (test.want == "") || !strings.Contains(out, test.want) {
				t.Errorf("migrate exits with %d, want %q: %s", code, test.want, out)
			}
			if strings.Contains(out, database.Password) && database.Password != "" {
				t.Error("the output has the password")
			}
		})
	}
}
