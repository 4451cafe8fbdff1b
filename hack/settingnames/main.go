// Command settingnames writes the names of all settings, from the tags of the configuration in
// runtime/ and controllers/, into runtime/environment/names.txt and into the schema of the chart's
// values. `make generate` runs it, and `make verify` finds files that are out of date.
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
	path := filepath.Join(root, "charts", "mediastack", "values.schema.json")
	schema, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if schema, err = withSettings(schema, names); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, schema, 0o644)
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

// Settings that the value "settings" of the chart must not have: other values set them, or Secrets do.
var (
	setByOthers = []string{
		"SERVICE_BASE_URL", "SERVICE_S3_ENDPOINT", "SERVICE_S3_REGION", "SERVICE_S3_CREDENTIALS", "SERVICE_MCP_HOSTS",
		"SERVICE_TLS_CERT_FILE", "SERVICE_TLS_KEY_FILE",
		"SERVICE_SMTP_HOST", "SERVICE_SMTP_PORT", "SERVICE_SMTP_TLS", "SERVICE_SMTP_USER", "SERVICE_MAIL_FROM",
		"SERVICE_WATCH_NAMESPACES", "SERVICE_NAMESPACE", "SERVICE_LEADER_ELECT", "SERVICE_LEADER_ELECTION_NAMESPACE",
		"SERVICE_LISTEN", "SERVICE_ADMIN_LISTEN", "SERVICE_HEALTH_LISTEN", "SERVICE_METRICS_LISTEN",
		"SERVICE_DRAIN_DELAY", "SERVICE_SHUTDOWN_TIMEOUT", "SERVICE_IMAGE_WORKERS", "SERVICE_IMAGE_MEMORY",
	}
	secret = regexp.MustCompile(`^SERVICE_SECRET|_PASSWORD$|_SECRET_KEY$|_ACCESS_KEY$|^SERVICE_DATABASE_URL$`)
	// enum is the list of names in the schema.
	enum = regexp.MustCompile(`(?s)("setting": \{.*?"enum": )\[[^\]]*\]`)
)

// withSettings returns the schema with the names that the value "settings" may have.
func withSettings(schema []byte, names []string) ([]byte, error) {
	allowed := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.Contains(setByOthers, name) || secret.MatchString(name)
	})
	text, err := json.MarshalIndent(allowed, "      ", "  ")
	if err != nil {
		return nil, err
	}
	if !enum.Match(schema) {
		return nil, errors.New("it has no definition \"setting\" with an enum")
	}
	return enum.ReplaceAll(schema, append([]byte("${1}"), text...)), nil
}
