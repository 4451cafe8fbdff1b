package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	spdxjson "github.com/spdx/tools-golang/json"
)

// bundleType is the media type of a signature, by which cosign finds it among the referrers of an image.
const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// indexCommand writes images of several architectures.
type indexCommand struct {
	Version       string   `required:"" help:"Version of the images."`
	Arch          []string `required:"" help:"Architectures, of which the command build has written the archives."`
	Signatures    string   `type:"existingdir" help:"Folder of the signatures, NAME.sigstore.json, which become referrers of the images."`
	OtherPackages bool     `help:"Go on if the architectures have other versions of Debian's packages, and print which."`
	Registry      string   `default:"docker.io" help:"Registry that the list names."`
	Out           string   `default:"dist" type:"path" help:"Folder of the archives."`
	List          string   `default:"images.txt" help:"File of the list, in the same folder."`
}

// Run writes the archives and the list.
func (c *indexCommand) Run() error {
	var list strings.Builder
	for _, name := range imageNames {
		digest, err := c.write(name)
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		fmt.Fprintf(&list, "%s/mediastack/%s:%s@%s\n", c.Registry, name, c.Version, digest)
	}
	fmt.Print(list.String())
	return os.WriteFile(filepath.Join(c.Out, c.List), []byte(list.String()), 0o644)
}

func (c *indexCommand) file(name, architecture string) string {
	return filepath.Join(c.Out, fmt.Sprintf("mediastack-%s-%s-linux-%s", name, c.Version, architecture))
}

// write writes the archive of an image, and returns its digest.
func (c *indexCommand) write(name string) (v1.Hash, error) {
	if err := c.samePackages(name); err != nil {
		return v1.Hash{}, err
	}
	work, err := os.MkdirTemp(c.Out, ".index-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range c.Arch {
		image, err := fromArchive(c.file(name, architecture)+".tar", filepath.Join(work, architecture))
		if err != nil {
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: untyped{image}, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	folder := filepath.Join(work, "layout")
	all, err := layout.Write(folder, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return v1.Hash{}, err
	}
	if err := all.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          "docker.io/mediastack/" + name + ":" + c.Version,
		"org.opencontainers.image.ref.name": c.Version,
	})); err != nil {
		return v1.Hash{}, err
	}
	if c.Signatures != "" {
		if err := c.addSignature(all, name, index); err != nil {
			return v1.Hash{}, err
		}
	}
	files := tree{}
	if err := addRelative(files, folder); err != nil {
		return v1.Hash{}, err
	}
	return digest, writeFile(filepath.Join(c.Out, fmt.Sprintf("mediastack-%s-%s.tar", name, c.Version)), files.writeTar)
}

// untyped is an image that an index lists without its artifactType, which is optional and says nothing of an image. skopeo drops
// it from a copy, and the index then has another digest.
type untyped struct{ v1.Image }

// Descriptor returns how an index lists the image; partial.Descriptor asks for it.
func (u untyped) Descriptor() (*v1.Descriptor, error) {
	descriptor, err := partial.Descriptor(u.Image)
	if err != nil {
		return nil, err
	}
	descriptor.ArtifactType = ""
	return descriptor, nil
}

// fromArchive returns the one image of an archive, which it unpacks into a folder.
func fromArchive(archive, folder string) (v1.Image, error) {
	if err := unpackArchive(archive, folder); err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images", archive, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

func unpackArchive(archive, folder string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("the archive has a file %q", header.Name)
		}
		name := filepath.Join(folder, header.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		out, err := os.Create(name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, reader); err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
}

// addSignature adds the signature of an index, as cosign stores it in a registry: a manifest that names the index as its subject.
func (c *indexCommand) addSignature(all layout.Path, name string, index v1.ImageIndex) error {
	bundle, err := os.ReadFile(filepath.Join(c.Signatures, name+".sigstore.json"))
	if err != nil {
		return err
	}
	subject, err := partial.Descriptor(index)
	if err != nil {
		return err
	}
	blob := func(mediaType types.MediaType, content []byte) (v1.Descriptor, error) {
		digest, size, err := v1.SHA256(bytes.NewReader(content))
		if err != nil {
			return v1.Descriptor{}, err
		}
		return v1.Descriptor{MediaType: mediaType, Size: size, Digest: digest}, all.WriteBlob(digest, io.NopCloser(bytes.NewReader(content)))
	}
	config, err := blob("application/vnd.oci.empty.v1+json", []byte("{}"))
	if err != nil {
		return err
	}
	layer, err := blob(bundleType, bundle)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: bundleType,
		Config: config, Layers: []v1.Descriptor{layer}, Subject: subject,
		Annotations: map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": "https://sigstore.dev/cosign/sign/v1"},
	})
	if err != nil {
		return err
	}
	descriptor, err := blob(types.OCIManifestSchema1, manifest)
	if err != nil {
		return err
	}
	descriptor.ArtifactType = bundleType
	// Without a name: it is found by its subject.
	return all.AppendDescriptor(descriptor)
}

// samePackages returns an error if the architectures of an image have other versions of Debian's packages: a correction of a
// vulnerability would be in one of them only.
func (c *indexCommand) samePackages(name string) error {
	versions := map[string]map[string]string{} // by package, then by architecture
	for _, architecture := range c.Arch {
		text, err := os.Open(c.file(name, architecture) + ".spdx.json")
		if err != nil {
			return err
		}
		document, err := spdxjson.Read(text)
		if err := errors.Join(err, text.Close()); err != nil {
			return err
		}
		for _, p := range document.Packages {
			if !strings.HasPrefix(string(p.PackageSPDXIdentifier), "Package-deb-") {
				continue
			}
			if versions[p.PackageName] == nil {
				versions[p.PackageName] = map[string]string{}
			}
			versions[p.PackageName][architecture] = p.PackageSourceInfo
		}
	}
	var different []string
	for name, of := range versions {
		for architecture, source := range of {
			if first, ok := of[c.Arch[0]]; ok && source != first {
				different = append(different, fmt.Sprintf("%s is %s for %s, and %s for %s", name, first, c.Arch[0], source, architecture))
			}
		}
	}
	if len(different) == 0 {
		return nil
	}
	slices.Sort(different)
	if c.OtherPackages {
		fmt.Fprintf(os.Stderr, "images: %s: %s\n", name, strings.Join(different, "; "))
		return nil
	}
	return fmt.Errorf("%s: upgrade the packages of this machine, and run `make sysroot REFRESH=1`", strings.Join(different, "; "))
}
