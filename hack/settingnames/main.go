// Command settingnames writes the names of all settings, from the tags of the configuration in
// runtime/ and controllers/, into runtime/environment/names.txt and into a file of the chart, which
// checks its value "settings" with it. `make generate` runs it, and `make verify` finds files that are out of date.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: settingnames ROOT"))
	}
	if err := update(os.Args[1]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "settingnames:", err)
	os.Exit(1)
}

// update writes both files.
func update(root string) error {
	names, err := declared(filepath.Join(root, "runtime"), filepath.Join(root, "controllers"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "runtime", "environment", "names.txt"), []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	settings, err := chartSettings(names)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "charts", "mediastack", "files", "settings.json"), settings, 0o644)
}

// declared returns the sorted names that begin with SERVICE_ in the env tags of the structs below
// folders, those of tests excluded.
func declared(folders ...string) (names []string, err error) {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			names = append(names, tags(file)...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func tags(file *ast.File) (names []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		field, ok := node.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		text, err := strconv.Unquote(field.Tag.Value)
		if name := reflect.StructTag(text).Get("env"); err == nil && strings.HasPrefix(name, "SERVICE_") {
			names = append(names, name)
		}
		return true
	})
	return names
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
	"SERVICE_DRAIN_DELAY":               "",
}

// secret matches the names of secrets, which a ConfigMap must not have.
var secret = regexp.MustCompile(`^SERVICE_SECRET|_PASSWORD$|_SECRET_KEY$|_ACCESS_KEY$|^SERVICE_DATABASE_URL$`)

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
