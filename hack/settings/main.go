// Command settings writes what the tags of the configuration in runtime/ and controllers/ say: the names of
// all settings into runtime/environment/names.txt and into a file of the chart, which checks its value
// "settings" with it, and the tables of settings into the pages of docs/reference. `make generate` runs it,
// and `make verify` finds files that are out of date.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: settings ROOT"))
	}
	if err := update(os.Args[1]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "settings:", err)
	os.Exit(1)
}

// update writes all files.
func update(root string) error {
	found, err := read(root)
	if err != nil {
		return err
	}
	var names []string
	for _, one := range found.all {
		if strings.HasPrefix(one.name, "SERVICE_") {
			names = append(names, one.name)
		}
	}
	slices.Sort(names)
	if err := os.WriteFile(filepath.Join(root, "runtime", "environment", "names.txt"), []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	ofChart, err := chartSettings(names)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "charts", "mediastack", "files", "settings.json"), ofChart, 0o644); err != nil {
		return err
	}
	return found.tables().Write(filepath.Join(root, "docs", "reference"))
}

// valueOf has the settings that the value "settings" of the chart must not have, with the value of the
// chart that sets each; empty if no value does.
var valueOf = map[string]string{
	"SERVICE_BASE_URL":                  "baseURL",
	"SERVICE_S3_ENDPOINT":               "s3.endpoint",
	"SERVICE_S3_REGION":                 "s3.region",
	"SERVICE_S3_CREDENTIALS":            "s3.credentials",
	"SERVICE_S3_ACCESS_KEY":             "s3.accessKeyKey",
	"SERVICE_S3_SECRET_KEY":             "s3.secretKeyKey",
	"SERVICE_MCP_HOSTS":                 "mcpHosts",
	"SERVICE_DATABASE_URL":              "database.urlKey",
	"SERVICE_SECRET":                    "serverSecret.key",
	"SERVICE_SECRET_PREVIOUS":           "serverSecret.previousKey",
	"SERVICE_TLS_CERT_FILE":             "tls.secretName",
	"SERVICE_TLS_KEY_FILE":              "tls.secretName",
	"SERVICE_SMTP_HOST":                 "smtp.host",
	"SERVICE_CDN_PURGE":                 "cdn.purge",
	"SERVICE_CDN_PURGE_URL":             "cdn.urls",
	"SERVICE_CDN_PURGE_KEY":             "cdn.keyKey",
	"SERVICE_SMTP_PORT":                 "smtp.port",
	"SERVICE_SMTP_TLS":                  "smtp.tls",
	"SERVICE_SMTP_USER":                 "smtp.user",
	"SERVICE_SMTP_PASSWORD":             "smtp.passwordKey",
	"SERVICE_MAIL_FROM":                 "smtp.from",
	"SERVICE_WATCH_NAMESPACES":          "watchNamespaces",
	"SERVICE_SHUTDOWN_TIMEOUT":          "runtime.terminationGracePeriodSeconds",
	"SERVICE_IMAGE_WORKERS":             "runtime.imageWorkers.count",
	"SERVICE_IMAGE_MEMORY":              "runtime.imageWorkers.memory",
	"SERVICE_NAMESPACE":                 "",
	"SERVICE_DEPLOYMENT":                "",
	"SERVICE_LEADER_ELECT":              "",
	"SERVICE_LEADER_ELECTION_NAMESPACE": "",
	"SERVICE_LISTEN":                    "",
	"SERVICE_ADMIN_LISTEN":              "",
	"SERVICE_HEALTH_LISTEN":             "",
	"SERVICE_METRICS_LISTEN":            "",
	"SERVICE_METRICS_TLS_CERT_FILE":     "metrics.tls.operatorSecretName",
	"SERVICE_METRICS_TLS_KEY_FILE":      "metrics.tls.operatorSecretName",
	"SERVICE_ADMIN_TLS_CERT_FILE":       "metrics.tls.runtimeSecretName",
	"SERVICE_ADMIN_TLS_KEY_FILE":        "metrics.tls.runtimeSecretName",
	"SERVICE_METRICS_TOKEN_FILE":        "metrics.tokenSecretName",
	"SERVICE_DRAIN_DELAY":               "",
}

// secret matches the names of secrets, which a ConfigMap must not have.
var secret = regexp.MustCompile(`^SERVICE_SECRET|_PASSWORD$|_SECRET_KEY$|_ACCESS_KEY$|_PURGE_KEY$|^SERVICE_DATABASE_URL$`)

// chartSettings returns the file of the chart: the names that its value "settings" may have, and what
// sets the others.
func chartSettings(names []string) ([]byte, error) {
	for name := range valueOf {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("valueOf has %s, which is no setting", name)
		}
	}
	allowed := []string{}
	for _, name := range names {
		if _, found := valueOf[name]; found {
			continue
		}
		if secret.MatchString(name) {
			return nil, fmt.Errorf("%s looks like a secret: name its value in valueOf", name)
		}
		allowed = append(allowed, name)
	}
	text, err := json.MarshalIndent(map[string]any{"allowed": allowed, "valueOf": valueOf}, "", "  ")
	return append(text, '\n'), err
}
