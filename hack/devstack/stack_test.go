package main

import (
	"slices"
	"testing"
)

func TestInheritedEnv_HasSettingsAndCertificationAuthorities(t *testing.T) {
	t.Setenv("SERVICE_MAX_UPLOADS", "4")
	t.Setenv("SSL_CERT_FILE", "/tmp/authority.pem")
	t.Setenv("SSL_CERT_DIR", "/tmp/authorities")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	env := inheritedEnv()
	for _, want := range []string{"SERVICE_MAX_UPLOADS=4", "SSL_CERT_FILE=/tmp/authority.pem", "SSL_CERT_DIR=/tmp/authorities"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not passed on", want)
		}
	}
	if slices.Contains(env, "HTTPS_PROXY=http://127.0.0.1:1") {
		t.Error("HTTPS_PROXY is passed on")
	}
}
