package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
)

// certificates returns the certificate authorities of files in one bundle. The files are those
// of the Debian package: the bundle in /etc/ssl/certs may contain authorities that the
// administrator of the building machine trusts, and no one else should.
func certificates(files []string) (string, error) {
	var bundle strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
			return "", fmt.Errorf("%s is not one certificate", name)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if err := pem.Encode(&bundle, block); err != nil {
			return "", err
		}
	}
	return bundle.String(), nil
}
