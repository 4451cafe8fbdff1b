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

// Authority signs certificates.
type Authority struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a new key. The certificates that it issues end with its own.
func NewAuthority(name string, life time.Duration) (*Authority, error) {
	now := time.Now()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	made, key, err := sign(template, nil)
	return &Authority{made, key}, err
}

// PEM returns the certificate and the key of the authority.
func (a *Authority) PEM() (certificate, key []byte, err error) { return encode(a.Certificate, a.key) }

// Issue signs a certificate with a new key. The template has the names and the uses.
func (a *Authority) Issue(template *x509.Certificate) (certificate, key []byte, err error) {
	template.NotBefore, template.NotAfter, template.KeyUsage = a.Certificate.NotBefore, a.Certificate.NotAfter, x509.KeyUsageDigitalSignature
	made, private, err := sign(template, a)
	if err != nil {
		return nil, nil, err
	}
	return encode(made, private)
}

// SelfSigned makes a certificate that clients trust as an authority, too. The template has the names; the
// certificate is valid from 2000 on, so one that has ended can be made.
func SelfSigned(template *x509.Certificate, notAfter time.Time) (certificate, key []byte, err error) {
	template.NotBefore, template.NotAfter = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), notAfter
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign
	made, private, err := sign(template, nil)
	if err != nil {
		return nil, nil, err
	}
	return encode(made, private)
}

// sign signs a certificate with a new key of the kind that authorities issue by default today; without an authority,
// with the key itself.
func sign(template *x509.Certificate, by *Authority) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

func encode(made *x509.Certificate, key *ecdsa.PrivateKey) (certificate, private []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
