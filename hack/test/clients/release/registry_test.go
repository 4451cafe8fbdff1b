package release_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/node"
)

// startRegistry serves the installed packages as a registry of npm, on loopback, each in the one version that is installed.
func startRegistry(t *testing.T, packages *node.Packages) string {
	t.Helper()
	registry := http.NewServeMux()
	server := httptest.NewServer(registry)
	t.Cleanup(server.Close)
	registry.HandleFunc("GET /-/archive/{name...}", func(w http.ResponseWriter, r *http.Request) {
		if err := writePackage(w, packages.Module(r.PathValue("name"))); err != nil {
			t.Error(err)
		}
	})
	registry.HandleFunc("GET /{name...}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		text, err := os.ReadFile(filepath.Join(packages.Module(name), "package.json"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		var manifest map[string]any
		if err := json.Unmarshal(text, &manifest); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		version, _ := manifest["version"].(string)
		manifest["dist"] = map[string]string{"tarball": server.URL + "/-/archive/" + name}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest}})
	})
	return server.URL
}

// writePackage writes a folder as the archive of a package.
func writePackage(w http.ResponseWriter, folder string) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(name, "node_modules/") {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: path.Join("package", name), Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}
