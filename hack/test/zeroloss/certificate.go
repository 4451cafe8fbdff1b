package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	serviceHost       = "mediastack-runtime." + system + ".svc.cluster.local"
	certificateSecret = "mediastack-tls"
	certificateLife   = 24 * time.Hour
)

// issue writes the Secret with a new certificate and a new key, as cert-manager does. Clients trust the authority.
func (i *installation) issue(ctx context.Context) error {
	pair, err := i.authority.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: serviceHost}, DNSNames: []string{serviceHost}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return err
	}
	i.issued = pair.Certificate.SerialNumber
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata":   map[string]string{"name": certificateSecret, "namespace": system},
		"stringData": map[string]string{"tls.crt": string(pair.PEM), "tls.key": string(pair.KeyPEM)},
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
	trusted.AddCert(i.authority.Certificate)
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
