package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

const (
	serviceHost       = "mediastack-runtime." + system + ".svc.cluster.local"
	certificateSecret = "mediastack-tls"
	certificateLife   = 24 * time.Hour
)

// authority issues the certificates of the service, as cert-manager does. Clients trust it.
type authority struct {
	certificate *x509.Certificate
	private     *ecdsa.PrivateKey
	pem         string
	issued      *big.Int // the serial number of the newest certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "zero-loss"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, private: key, pem: encode("CERTIFICATE", der), issued: big.NewInt(1)}, nil
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// issue writes the Secret with a new certificate and a new key.
func (a *authority) issue(ctx context.Context) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	a.issued = new(big.Int).Add(a.issued, big.NewInt(1))
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: a.issued, Subject: pkix.Name{CommonName: serviceHost}, DNSNames: []string{serviceHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.certificate, key.Public(), a.private)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata":   map[string]string{"name": certificateSecret, "namespace": system},
		"stringData": map[string]string{"tls.crt": encode("CERTIFICATE", der), "tls.key": encode("PRIVATE KEY", encoded)},
	})
	if err != nil {
		return err
	}
	return apply(ctx, string(secret))
}

// rotateCertificate issues another certificate, and waits until every pod of the runtime serves it.
func (i *installation) rotateCertificate(ctx context.Context) error {
	if err := i.issue(ctx); err != nil {
		return err
	}
	output, err := query(ctx, "get", "pods", selector("runtime"), "--output=jsonpath={.items[*].status.podIP}")
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(i.certificate)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: serviceHost}}
	return until(ctx, settleLimit, func() error {
		var old []error
		for _, address := range strings.Fields(output) {
			conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, "8080"))
			if err != nil {
				old = append(old, err)
				continue
			}
			if serial := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber; serial.Cmp(i.issued) != 0 {
				old = append(old, fmt.Errorf("%s serves certificate %s, not %s", address, serial, i.issued))
			}
			_ = conn.Close()
		}
		return errors.Join(old...)
	})
}
