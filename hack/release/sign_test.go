package main

import (
	"archive/tar"
	"bytes"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newKey writes a pair of keys without a password.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "cosign")
	must(t, (&keyCommand{Prefix: prefix}).Run())
	return prefix + ".key", prefix + ".pub"
}

// archive writes an archive with an index, and the signature of a digest in a folder, if there is one. It returns the digest.
func archive(t *testing.T, file, content, signatures, name string) string {
	t.Helper()
	digestOf := func(text []byte) string { sum := sha256.Sum256(text); return hex.EncodeToString(sum[:]) }
	files := map[string][]byte{}
	put := func(text []byte) string {
		files["blobs/sha256/"+digestOf(text)] = text
		return "sha256:" + digestOf(text)
	}
	digest := put([]byte(content))
	listed := []map[string]any{{"digest": digest}}
	if signed, err := os.ReadFile(filepath.Join(signatures, name+".sigstore.json")); err == nil {
		manifest, err := json.Marshal(map[string]any{"layers": []any{map[string]string{"digest": put(signed)}}, "subject": map[string]string{"digest": digest}})
		must(t, err)
		listed = append(listed, map[string]any{"digest": put(manifest), "artifactType": bundleType})
	}
	index, err := json.Marshal(map[string]any{"manifests": listed})
	must(t, err)
	files["index.json"] = index
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for path, text := range files {
		must(t, writer.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := writer.Write(text)
		must(t, err)
	}
	must(t, writer.Close())
	must(t, os.WriteFile(file, out.Bytes(), 0o600))
	return digest
}

// signedRelease writes a small release, signed with a key.
func signedRelease(t *testing.T, key string) string {
	t.Helper()
	folder, signatures := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "install.yaml"), []byte("kind: Namespace\n"), 0o600))
	list := ""
	write := func() {
		list = ""
		for _, name := range images {
			list += fmt.Sprintf("docker.io/mediastack/%s:v1.2.3@%s\n", name, archive(t, filepath.Join(folder, imageArchive(name, "v1.2.3")), "index of "+name, signatures, name))
		}
	}
	write()
	must(t, os.WriteFile(filepath.Join(folder, listFile), []byte(list), 0o600))
	must(t, (&signCommand{Key: key, Images: filepath.Join(folder, listFile), Out: signatures}).Run())
	write()
	must(t, (&proveCommand{Version: "v1.2.3", Revision: strings.Repeat("0", 40), Platforms: []string{"linux/amd64"}, Key: key, Folder: folder}).Run())
	return folder
}

func TestVerify_AcceptsWhatTheKeyHasSigned(t *testing.T) {
	t.Parallel()
	private, public := newKey(t)
	must(t, (&verifyCommand{Key: public, Version: "v1.2.3", Folder: signedRelease(t, private)}).Run())
}

func TestVerify_RejectsEveryChange(t *testing.T) {
	t.Parallel()
	private, public := newKey(t)
	_, otherPublic := newKey(t)
	otherPrivate, _ := newKey(t)
	write := func(name, content string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
		}
	}
	for name, one := range map[string]struct {
		change func(*testing.T, string)
		key    string
		want   string
	}{
		"another key":     {func(*testing.T, string) {}, otherPublic, "was not signed with this key"},
		"another version": {func(*testing.T, string) {}, public, ""},
		"a changed file":  {write("install.yaml", "kind: Secret\n"), public, "install.yaml was changed"},
		"a file more":     {write("more.yaml", ""), public, "more.yaml is no file of the release"},
		"a file less":     {func(t *testing.T, folder string) { must(t, os.Remove(filepath.Join(folder, "install.yaml"))) }, public, "install.yaml is missing"},
		"other checksums": {write(sumsFile, strings.Repeat("0", 64)+"  install.yaml\n"), public, "was not signed with this key"},
		"no signature":    {func(t *testing.T, folder string) { must(t, os.Remove(filepath.Join(folder, signedSums))) }, public, "the release is not signed"},
		"a signature of others": {func(t *testing.T, folder string) {
			must(t, (&proveCommand{Version: "v1.2.3", Revision: "0", Key: otherPrivate, Folder: folder}).writeAll())
		}, public, "was not signed with this key"},
		// The checksums are right, and the image is another one.
		"an image without a signature": {func(t *testing.T, folder string) {
			archive(t, filepath.Join(folder, imageArchive("runtime", "v1.2.3")), "index of runtime", folder, "none")
			must(t, (&proveCommand{Version: "v1.2.3", Revision: "0", Key: private, Folder: folder}).writeAll())
		}, public, "has no image (true) or no signature (false)"},
		"an image that is not listed": {func(t *testing.T, folder string) {
			archive(t, filepath.Join(folder, imageArchive("runtime", "v1.2.3")), "another index", folder, "none")
			must(t, (&proveCommand{Version: "v1.2.3", Revision: "0", Key: private, Folder: folder}).writeAll())
		}, public, "images.txt names sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := signedRelease(t, private)
			one.change(t, folder)
			command, want := verifyCommand{Key: one.key, Version: "v1.2.3", Folder: folder}, one.want
			if name == "another version" {
				command.Version, want = "v1.2.4", "this is version v1.2.3, not v1.2.4"
			}
			if err := command.Run(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, not %q", err, want)
			}
		})
	}
}

// writeAll writes the files again, as who can change a release would.
func (c *proveCommand) writeAll() error {
	for _, name := range []string{sumsFile, signedSums, provenanceFile, signedProvenance, publicKeyFile} {
		if err := os.Remove(filepath.Join(c.Folder, name)); err != nil {
			return err
		}
	}
	return c.Run()
}

// A key of cosign is encrypted, and its password is never part of an error.
func TestKey_NeedsItsPassword(t *testing.T) {
	t.Setenv(passwordVariable, "right")
	private, _ := newKey(t)
	text, err := os.ReadFile(private)
	must(t, err)
	if !strings.HasPrefix(string(text), "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----") {
		t.Errorf("the key begins with %.50s", text)
	}
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the key: %v, %v", info.Mode(), err)
	}
	if _, err := loadKey(private); err != nil {
		t.Error(err)
	}
	t.Setenv(passwordVariable, "wrong-password")
	if _, err := loadKey(private); err == nil || !strings.Contains(err.Error(), "is COSIGN_PASSWORD its password?") || strings.Contains(err.Error(), "wrong-password") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := (&keyCommand{Prefix: strings.TrimSuffix(private, ".key")}).Run(); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over a key that exists: %v", err)
	}
}

func TestKey_OfAnotherKindIsRejected(t *testing.T) {
	t.Parallel()
	for name, generate := range map[string]func() ([]byte, []byte, error){
		"RSA": func() ([]byte, []byte, error) { return cryptoutils.GeneratePEMEncodedRSAKeyPair(2048, nil) },
		"P-384": func() ([]byte, []byte, error) {
			return cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P384(), nil)
		},
	} {
		private, _, err := generate()
		must(t, err)
		file := filepath.Join(t.TempDir(), "key")
		must(t, os.WriteFile(file, private, 0o600))
		if _, err := loadKey(file); err == nil || !strings.Contains(err.Error(), "is not ECDSA with the curve P-256") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// byOpenSSL matches the commands of docs/reference/images.md that need no program of this repository.
var byOpenSSL = regexp.MustCompile("(?s)```sh TestVerify_ByOpenSSLAlone\n(.*?)```")

func TestVerify_ByOpenSSLAlone(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/images.md")
	must(t, err)
	commands := byOpenSSL.FindSubmatch(page)
	if commands == nil {
		t.Fatal("docs/reference/images.md has no such commands")
	}
	private, public := newKey(t)
	_, other := newKey(t)
	for name, one := range map[string]struct {
		change func(folder string) error
		key    string
		want   string
	}{
		"nothing":        {func(string) error { return nil }, public, ""},
		"another key":    {func(string) error { return nil }, other, "Verification failure"},
		"a changed file": {func(folder string) error { return os.WriteFile(filepath.Join(folder, "install.yaml"), nil, 0o600) }, public, "install.yaml: FAILED"},
		"changed sums":   {func(folder string) error { return os.WriteFile(filepath.Join(folder, sumsFile), nil, 0o600) }, public, "Verification failure"},
	} {
		folder := signedRelease(t, private)
		must(t, one.change(folder))
		command := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(string(commands[1]), "/path/to/cosign.pub", one.key))
		command.Dir = folder
		out, err := command.CombinedOutput()
		if (err == nil) != (one.want == "") || !strings.Contains(string(out), one.want) || one.want == "" && !strings.Contains(string(out), "Verified OK") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
