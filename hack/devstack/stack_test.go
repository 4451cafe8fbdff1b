package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

func TestStopped_NamesTheLogOfTheLastDetachedStack(t *testing.T) {
	t.Parallel()
	data := &dataDir{dir: t.TempDir()}
	log := data.path(stackLog)
	for _, step := range []struct {
		prepare func() error
		named   bool
	}{
		{func() error { return os.MkdirAll(filepath.Dir(log), 0o700) }, false},
		{func() error { return os.WriteFile(log, nil, 0o600) }, false},
		{func() error { return os.WriteFile(log, []byte("PostgreSQL ended\n"), 0o600) }, true},
	} {
		if err := step.prepare(); err != nil {
			t.Fatal(err)
		}
		var printed strings.Builder
		printStopped(&printed, data)
		if named := strings.Contains(printed.String(), log); named != step.named || !strings.HasPrefix(printed.String(), "No stack runs in "+data.dir+".\n") {
			t.Errorf("it prints %q", printed.String())
		}
	}
}
