package servers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Ten years: a dev stack's data folder should never die of its certificates.
const certificateLife = 10 * 365 * 24 * time.Hour

// authority is a certificate authority that is kept in two files.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// keyPair is a certificate with its key, both in PEM.
type keyPair struct{ certificate, key []byte }

// loadAuthority reads NAME.crt and NAME.key from a folder, and makes them when they are absent.
func loadAuthority(dir, name string) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	certPEM, err := os.ReadFile(certFile)
	if errors.Is(err, os.ErrNotExist) {
		return makeAuthority(name, certFile, keyFile)
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority %s: %w", certFile, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read the certificate authority %s: its key is not of the kind that it was made with", certFile)
	}
	return &authority{certificate: pair.Leaf, key: key, pem: certPEM}, nil
}

func makeAuthority(name, certFile, keyFile string) (*authority, error) {
	key, keyPEM, err := makeKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "mediastack trial " + name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(certificateLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	// The key goes first: a certificate on disk means that both are complete.
	if err := writePrivate(keyFile, keyPEM); err != nil {
		return nil, err
	}
	if err := writePrivate(certFile, certPEM); err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key, pem: certPEM}, nil
}

func makeKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// issue makes a certificate for a subject. With server set it is good for serving on loopback, too.
func (a *authority) issue(subject pkix.Name, server bool) (keyPair, error) {
	key, keyPEM, err := makeKey()
	if err != nil {
		return keyPair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return keyPair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		template.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM}, nil
}

// write puts a key pair into NAME.crt and NAME.key.
func (p keyPair) write(dir, name string) error {
	if err := writePrivate(filepath.Join(dir, name+".key"), p.key); err != nil {
		return err
	}
	return writePrivate(filepath.Join(dir, name+".crt"), p.certificate)
}

// kubeconfig renders a client's configuration with everything inside it.
func kubeconfig(server string, authorityPEM []byte, pair keyPair) []byte {
	encode := base64.StdEncoding.EncodeToString
	var text bytes.Buffer
	fmt.Fprintf(&text, `apiVersion: v1
kind: Config
clusters:
- name: mediastack
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: user
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: mediastack
  context: {cluster: mediastack, user: user}
current-context: mediastack
`, server, encode(authorityPEM), encode(pair.certificate), encode(pair.key))
	return text.Bytes()
}

// writePrivate replaces a file at once, readable by its owner only.
func writePrivate(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
