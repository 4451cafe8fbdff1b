// Package certificate makes certificates for the servers of tests, benchmarks and clusters.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// early is how long before now certificates begin, for clocks that differ.
const early = time.Hour

// Pair is a certificate with its key.
type Pair struct {
	Certificate *x509.Certificate
	// PEM is the certificate, and KeyPEM the key, in PEM.
	PEM, KeyPEM []byte

	key *ecdsa.PrivateKey
}

// Authority signs certificates, which end with its own.
type Authority struct{ *Pair }

// NewAuthority makes an authority with a new key.
func NewAuthority(name string, life time.Duration) (*Authority, error) {
	now := time.Now()
	pair, err := sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-early), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}, nil)
	return &Authority{pair}, err
}

// Issue signs a certificate with a new key. The template has the names and the extended uses.
func (a *Authority) Issue(template *x509.Certificate) (*Pair, error) {
	template.NotBefore, template.NotAfter, template.KeyUsage = time.Now().Add(-early), a.Certificate.NotAfter, x509.KeyUsageDigitalSignature
	return sign(template, a)
}

// SelfSigned makes a certificate that clients trust as an authority, too. The template has the names. The
// certificate may have ended: it is valid from 2000 on.
func SelfSigned(template *x509.Certificate, notAfter time.Time) (*Pair, error) {
	template.NotBefore, template.NotAfter = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), notAfter
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign
	return sign(template, nil)
}

// sign signs a certificate with a new key of the kind that authorities issue by default today; without an authority,
// with the key itself.
func sign(template *x509.Certificate, by *Authority) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, err
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	return &Pair{made, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), key}, err
}
