package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"mediastack.dev/hack/certificate"
	"mediastack.dev/hack/testenv/check"
)

func TestCertificates_AreTrustedByTheirAuthorityOnly(t *testing.T) {
	t.Parallel()
	issuer, err := certificate.NewAuthority("issuer", time.Hour)
	check.NoError(t, err)
	other, err := certificate.NewAuthority("other", time.Hour)
	check.NoError(t, err)
	names := func() *x509.Certificate {
		return &x509.Certificate{DNSNames: []string{"media.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	}
	issued, err := issuer.Issue(names())
	check.NoError(t, err)
	own, err := certificate.SelfSigned(names(), time.Now().Add(time.Hour))
	check.NoError(t, err)
	ended, err := certificate.SelfSigned(names(), time.Now().Add(-time.Hour))
	check.NoError(t, err)
	for name, one := range map[string]struct {
		pair, by *certificate.Pair
		trusted  bool
	}{
		"issued": {issued, issuer.Pair, true}, "of another authority": {issued, other.Pair, false},
		"self-signed": {own, own, true}, "ended": {ended, ended, false},
	} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(one.by.PEM)
		if _, err := one.pair.Certificate.Verify(x509.VerifyOptions{DNSName: "media.test", Roots: roots}); (err == nil) != one.trusted {
			t.Errorf("%s: %v", name, err)
		}
		_, err := tls.X509KeyPair(one.pair.PEM, one.pair.KeyPEM)
		check.NoError(t, err)
	}
}
