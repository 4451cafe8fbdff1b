package testenv

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	issued "mediastack.dev/hack/certificate"
)

// Certificate returns a new self-signed certificate of a host, with its key, in PEM.
func Certificate(t testing.TB, host string, notAfter time.Time) (certificate, key []byte) {
	t.Helper()
	pair, err := issued.SelfSigned(&x509.Certificate{Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}}, notAfter)
	if err != nil {
		t.Fatal(err)
	}
	return pair.PEM, pair.KeyPEM
}
