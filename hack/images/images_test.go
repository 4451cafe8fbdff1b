package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
)

// Limits of the unpacked images, in bytes.
var maxSize = map[string]int64{"operator": 60e6, "runtime": 150e6}

// Identifiers of SPDX that the modules have, or none.
var licenseExpression = regexp.MustCompile(`^(NOASSERTION|(?:(?:Apache-2.0|BSD-[23]-Clause|CC-BY-4.0|ISC|MIT|MIT-0)(?: AND )?)+)$`)

var testRelease = release{version: "v1.2.3", revision: "0123456789abcdef0123456789abcdef01234567", created: time.Unix(1_700_000_000, 0).UTC()}

// checkout returns the sources of the images: the programs that make build wrote.
func checkout() source {
	return source{Bin: "../../bin", Root: "/", License: "../../LICENSE", Viewer: "../../runtime/internal/apidocs/swagger-ui"}
}

func build(t *testing.T, name string, from source) *image {
	t.Helper()
	c, err := collect(t.Context(), name, from)
	if err != nil {
		t.Fatal(err)
	}
	built, err := newImage(c, testRelease)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// fixture is an image with its archive and its SBOM, which all tests read.
type fixture struct {
	*image
	archive, sbom string
}

var fixtures = map[string]fixture{}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "images-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(folder) }()
		for _, name := range imageNames {
			c, err := collect(context.Background(), name, checkout())
			if err != nil {
				panic(err)
			}
			one := fixture{archive: filepath.Join(folder, name+".tar"), sbom: filepath.Join(folder, name+".json")}
			if one.image, err = newImage(c, testRelease); err == nil {
				err = errors.Join(one.writeArchive(one.archive), one.writeSBOM(one.sbom))
			}
			if err != nil {
				panic(err)
			}
			fixtures[name] = one
		}
		return m.Run()
	}())
}

// readArchive returns what a cluster reads from an archive.
func readArchive(t *testing.T, archive string) (v1.Image, v1.Descriptor) {
	t.Helper()
	folder := t.TempDir()
	run(t, nil, "tar", "--extract", "--file", archive, "--directory", folder)
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the archive has %d images", len(manifest.Manifests))
	}
	image, err := all.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, manifest.Manifests[0]
}

// unpack writes the file system of an image to a folder.
func unpack(t *testing.T, from v1.Image) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(from)
	defer func() { _ = content.Close() }()
	run(t, content, "tar", "--extract", "--preserve-permissions", "--directory", folder)
	return folder
}

func run(t *testing.T, stdin io.Reader, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Stdin = stdin
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// The second build has the same programs in another folder, with other times and permissions.
func TestImages_SameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	from := checkout()
	from.Bin = t.TempDir()
	for _, program := range []string{"mediastack-operator", "mediastack-runtime", "mediastack-imaging"} {
		if err := os.WriteFile(filepath.Join(from.Bin, program), read(t, filepath.Join("../../bin", program)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range imageNames {
		again := build(t, name, from)
		archive, sbom := filepath.Join(t.TempDir(), "image.tar"), filepath.Join(t.TempDir(), "image.json")
		if err := errors.Join(again.writeArchive(archive), again.writeSBOM(sbom)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, archive), read(t, fixtures[name].archive)) {
			t.Errorf("%s: two builds wrote different archives", name)
		}
		if !bytes.Equal(read(t, sbom), read(t, fixtures[name].sbom)) {
			t.Errorf("%s: two builds wrote different SBOMs", name)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestImages_AreDescribed(t *testing.T) {
	t.Parallel()
	for _, name := range imageNames {
		built := fixtures[name]
		image, descriptor := readArchive(t, fixtures[name].archive)
		if err := validate.Image(image); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := "docker.io/mediastack/" + name + ":v1.2.3"; descriptor.Annotations["io.containerd.image.name"] != want {
			t.Errorf("%s: containerd imports it as %q, not %q", name, descriptor.Annotations["io.containerd.image.name"], want)
		}
		if descriptor.Digest != built.digest {
			t.Errorf("%s: the archive has another digest than was printed", name)
		}
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if file.Config.User != "65532:65532" || !slices.Equal(file.Config.Entrypoint, []string{"/usr/local/bin/mediastack-" + name}) {
			t.Errorf("%s: it runs %v as %s", name, file.Config.Entrypoint, file.Config.User)
		}
		for key, want := range map[string]string{"version": "v1.2.3", "revision": testRelease.revision, "created": "2023-11-14T22:13:20Z", "licenses": "Apache-2.0"} {
			if got := file.Config.Labels["org.opencontainers.image."+key]; got != want {
				t.Errorf("%s: the label %s is %q, not %q", name, key, got, want)
			}
		}
		for _, key := range []string{"source", "title", "description"} {
			if file.Config.Labels["org.opencontainers.image."+key] == "" {
				t.Errorf("%s: there is no label %s", name, key)
			}
		}
		if size := built.size(); size > maxSize[name] {
			t.Errorf("%s: it has %d bytes unpacked, more than %d", name, size, maxSize[name])
		}
	}
}

// Every file of an image belongs to the builder, to a program or to a package that the SBOM
// names, and each package has its license in the image.
func TestImages_NameWhatTheyContain(t *testing.T) {
	t.Parallel()
	for _, name := range imageNames {
		built := fixtures[name]
		document, err := spdxjson.Read(bytes.NewReader(read(t, built.sbom)))
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]string{}
		ids := map[string]bool{}
		for _, p := range document.Packages {
			listed[p.PackageName] = p.PackageVersion
			if !licenseExpression.MatchString(p.PackageLicenseDeclared) {
				t.Errorf("%s: %s has the license %q", name, p.PackageName, p.PackageLicenseDeclared)
			}
			ids[string(p.PackageSPDXIdentifier)] = true
		}
		if len(ids) != len(document.Packages) || len(document.Relationships) != len(document.Packages) {
			t.Errorf("%s: %d packages have %d ids and %d relationships", name, len(document.Packages), len(ids), len(document.Relationships))
		}
		wanted := []string{"ca-certificates", "stdlib", "github.com/minio/minio-go/v7", "github.com/jackc/pgx/v5"}
		if name == "runtime" {
			wanted = append(wanted, "libvips42", "libheif1", "libc6", "libde265-0", "github.com/h2non/bimg")
		}
		for _, want := range wanted {
			if listed[want] == "" {
				t.Errorf("%s: the SBOM does not list %s", name, want)
			}
		}
		for _, p := range built.packages {
			if listed[p.name] != p.version || built.base["usr/share/doc/"+p.name+"/copyright"].data == nil || built.base["var/lib/dpkg/status.d/"+p.name].data == nil {
				t.Errorf("%s: %s %s is incomplete", name, p.name, p.version)
			}
		}
		for _, m := range built.modules {
			folder, ok := built.programs["licenses/"+m.path+"@"+m.version]
			if listed[m.path] != m.version || !ok || !folder.mode.IsDir() {
				t.Errorf("%s: %s %s is incomplete", name, m.path, m.version)
			}
		}
	}
}

// The administrator of the building machine may trust authorities that no one else should.
func TestCertificates_AreThoseOfThePackage(t *testing.T) {
	t.Parallel()
	authorities, err := filepath.Glob("/usr/share/ca-certificates/mozilla/*.crt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range imageNames {
		count := 0
		for block, rest := pem.Decode(fixtures[name].base["etc/ssl/certs/ca-certificates.crt"].data); block != nil; block, rest = pem.Decode(rest) {
			count++
		}
		if count < 100 || count != len(authorities) {
			t.Errorf("%s: it trusts %d authorities, the package has %d", name, count, len(authorities))
		}
	}
}

func TestLoadedByName_RequiresTheHEICModule(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if found, err := loadedByName(folder); err == nil || !strings.Contains(err.Error(), "vips-heif.so") {
		t.Errorf("without the module: %q, %v", found, err)
	}
	for _, name := range []string{"vips-modules-8.14/vips-heif.so", "libheif/plugins/libheif-libde265.so"} {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := loadedByName(folder); err != nil || len(found) != 2 {
		t.Errorf("with a plug-in of libheif: %q, %v", found, err)
	}
}

func TestPackages_AFileOfNoPackageIsAnError(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "libown.so")
	if _, err := packagesOf(t.Context(), "/", []string{own, "/usr/lib/os-release"}); err == nil || !strings.Contains(err.Error(), own) {
		t.Errorf("%v", err)
	}
}

func TestArchive_DockerReadsTheSameImage(t *testing.T) {
	t.Parallel()
	members := map[string][]byte{}
	for reader := tar.NewReader(bytes.NewReader(read(t, fixtures["operator"].archive))); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if members[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(members["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"mediastack/operator:v1.2.3"}) || len(manifest[0].Layers) != 2 {
		t.Fatalf("manifest.json is %s", members["manifest.json"])
	}
	for _, blob := range append(manifest[0].Layers, manifest[0].Config) {
		if want := fmt.Sprintf("blobs/sha256/%x", sha256.Sum256(members[blob])); blob != want {
			t.Errorf("%s has the digest %s", blob, want)
		}
	}
}

func TestCommand_RejectsAVersionThatIsNoTag(t *testing.T) {
	t.Parallel()
	command := buildCommand{source: checkout(), Version: "not a tag", Out: t.TempDir()}
	if err := command.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "tag") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(command.Out); err != nil || len(left) > 0 {
		t.Errorf("%v, %v was written", err, left)
	}
}
