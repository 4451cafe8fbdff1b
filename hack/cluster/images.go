package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
)

// image is an image of the cluster itself: one static program.
type image struct {
	name, program, archive string
}

// images are those that each node has from the start: the first is the one that holds a pod's namespaces.
func (k *cluster) images() []image {
	return []image{
		{name: "mediastack.local/pause:1", program: k.programs.pause, archive: k.data.path("pause.tar")},
		{name: "mediastack.local/coredns:1", program: k.programs.container("coredns"), archive: k.data.path("coredns.tar")},
	}
}

func (k *cluster) writeImages() error {
	for _, image := range k.images() {
		if err := image.write(); err != nil {
			return err
		}
	}
	return nil
}

// write writes an archive as `docker save` does.
func (i image) write() error {
	program, err := os.ReadFile(i.program)
	if err != nil {
		return err
	}
	entrypoint := path.Join("/", filepath.Base(i.program))
	var layer bytes.Buffer
	if err := writeTar(&layer, file{entrypoint[1:], 0o755, program}); err != nil {
		return err
	}
	digest := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{entrypoint}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{i.name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	archive, err := os.OpenFile(i.archive, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer archive.Close()
	return writeTar(archive, file{"layer.tar", 0o644, layer.Bytes()}, file{"config.json", 0o644, config}, file{"manifest.json", 0o644, manifest})
}

type file struct {
	name    string
	mode    int64
	content []byte
}

func writeTar(w io.Writer, files ...file) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}
