package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"mediastack.dev/hack/servers"
)

// certificate is a self-signed one of the loopback address, in files, and what trusts it.
type certificate struct {
	file, keyFile string
	roots         *x509.CertPool
}

// newCertificate writes a certificate with a key of the kind that authorities issue by default today.
func newCertificate(dir string) (certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return certificate{}, err
	}
	c := certificate{file: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key"), roots: x509.NewCertPool()}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	c.roots.AppendCertsFromPEM(text)
	return c, errors.Join(os.WriteFile(c.file, text, 0o600), os.WriteFile(c.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// serveTLS starts a runtime that takes HTTPS only. It reaches the given S3 store, whose certificate
// may be the same one.
func (env *environment) serveTLS(ctx context.Context, name string, c certificate, access servers.S3Access, t tenant) (*endpoint, error) {
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	e, err := env.serveConfig(ctx, t, servers.RuntimeConfig{Name: name, Port: port, BaseURL: fmt.Sprintf("https://127.0.0.1:%d", port),
		Env: []string{"SERVICE_TLS_CERT_FILE=" + c.file, "SERVICE_TLS_KEY_FILE=" + c.keyFile, "SERVICE_S3_ENDPOINT=" + access.Endpoint, "SSL_CERT_FILE=" + c.file}})
	if err != nil {
		return nil, err
	}
	return e, e.configure(func(transport *http.Transport) { transport.TLSClientConfig = &tls.Config{RootCAs: c.roots} })
}

// configure changes the transport of the endpoint's client, before its first request.
func (e *endpoint) configure(change func(*http.Transport)) error {
	transport, ok := e.client.Transport.(*http.Transport)
	if !ok {
		return fmt.Errorf("the client has a transport of type %T", e.client.Transport)
	}
	change(transport)
	return nil
}

// startStoreTLS starts a second S3 store with the same objects, which takes HTTPS only.
func (env *environment) startStoreTLS(ctx context.Context, c certificate) (*servers.S3, error) {
	second, err := env.group.StartS3(ctx, servers.S3Config{
		Dir: filepath.Join(env.dir, "s3"), LogFile: filepath.Join(env.dir, "s3-tls.log"), CertFile: c.file, KeyFile: c.keyFile,
		AccessKey: env.s3.Access.AccessKey, SecretKey: env.s3.Access.SecretKey,
	})
	if err == nil {
		env.watched[storeTLS] = second.PID()
	}
	return second, err
}
