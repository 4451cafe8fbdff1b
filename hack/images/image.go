package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const sourceURL = "https://mediastack.dev"

// release identifies what is built.
type release struct {
	version, revision string
	created           time.Time
}

// image is a built image.
type image struct {
	contents
	release
	reference string // its name in a cluster
	digest    v1.Hash
	image     v1.Image
}

var titles = map[string]string{"operator": "mediastack operator", "runtime": "mediastack runtime"}

var descriptions = map[string]string{
	"operator": "Reconciles the MediaAccount, MediaSettings, MediaWebhook and RetainedMediaAccount objects of a cluster.",
	"runtime":  "Serves REST, TUS, MCP and logins, creates thumbnails and conversions, and purges drafts.",
}

// labels returns the labels of the image, which are also the annotations of its manifest.
func (c contents) labels(r release) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       titles[c.name],
		"org.opencontainers.image.description": descriptions[c.name],
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
		"org.opencontainers.image.source":      sourceURL,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// newImage builds an image.
func newImage(c contents, r release) (*image, error) {
	reference := "docker.io/mediastack/" + c.name + ":" + r.version
	if _, err := name.NewTag(reference); err != nil {
		return nil, err
	}
	built := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, part := range []struct {
		of    string
		files tree
	}{{"certificates and libraries", c.base}, {"programs", c.programs}} {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			read, write := io.Pipe()
			go func() { write.CloseWithError(part.files.writeTar(write)) }()
			return read, nil
		}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		if built, err = mutate.Append(built, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
			History: v1.History{CreatedBy: part.of, Created: v1.Time{Time: r.created}}}); err != nil {
			return nil, err
		}
	}
	file, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Created = c.architecture, "linux", v1.Time{Time: r.created}
	file.Config = v1.Config{
		User:         strconv.Itoa(userID) + ":" + strconv.Itoa(userID),
		Env:          []string{"PATH=/" + programs},
		Entrypoint:   []string{c.entrypoint()},
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{},
		Labels:       c.labels(r),
	}
	for _, port := range c.ports {
		file.Config.ExposedPorts[port] = struct{}{}
	}
	if built, err = mutate.ConfigFile(built, file); err != nil {
		return nil, err
	}
	built = mutate.Annotations(built, c.labels(r)).(v1.Image)
	digest, err := built.Digest()
	return &image{contents: c, release: r, reference: reference, digest: digest, image: built}, err
}

// writeArchive writes the image as an OCI image layout in a tar archive, which also has the
// manifest.json that older versions of docker load read.
func (i *image) writeArchive(file string) error {
	folder, err := os.MkdirTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	index, err := layout.Write(folder, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	if err := index.AppendImage(i.image, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: i.architecture}),
		layout.WithAnnotations(map[string]string{
			"io.containerd.image.name":          i.reference,
			"org.opencontainers.image.ref.name": i.version,
		})); err != nil {
		return err
	}
	manifest, err := i.dockerManifest()
	if err != nil {
		return err
	}
	files := tree{}
	files.text("manifest.json", manifest, 0o644)
	if err := addRelative(files, folder); err != nil {
		return err
	}
	return writeFile(file, files.writeTar)
}

func (i *image) dockerManifest() (string, error) {
	config, err := i.image.ConfigName()
	if err != nil {
		return "", err
	}
	layers, err := i.image.Layers()
	if err != nil {
		return "", err
	}
	blob := func(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }
	var paths []string
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return "", err
		}
		paths = append(paths, blob(digest))
	}
	text, err := json.Marshal([]any{map[string]any{"Config": blob(config), "RepoTags": []string{"mediastack/" + i.name + ":" + i.version}, "Layers": paths}})
	return string(text), err
}

// addRelative adds the files of a folder by their path below it.
func addRelative(t tree, folder string) error {
	found := tree{}
	if err := addFolder(found, "/", folder); err != nil {
		return err
	}
	for name, e := range found {
		if e.source == "" {
			continue
		}
		relative, err := filepath.Rel(folder, "/"+name)
		if err != nil {
			return err
		}
		t.add(relative, e)
	}
	return nil
}

// writeFile writes a file, which appears under its name when it is complete.
func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := write(file); err != nil {
		_ = file.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := file.Chmod(0o644); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
