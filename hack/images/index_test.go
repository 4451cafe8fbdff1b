package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Programs that copy an image write its index anew from what they know of it. Then it has another digest than images.txt names.
func TestIndex_HasNothingThatACopyDrops(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, one := range fixtures {
		target := filepath.Join(folder, "mediastack-"+name+"-v1.2.3-linux-"+runtime.GOARCH)
		for extension, file := range map[string]string{".tar": one.archive, ".spdx.json": one.sbom} {
			if err := os.Symlink(file, target+extension); err != nil {
				t.Fatal(err)
			}
		}
	}
	command := indexCommand{Version: "v1.2.3", Arch: []string{runtime.GOARCH}, Registry: "registry.example.org", Out: folder, List: "images.txt"}
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(read(t, filepath.Join(folder, "images.txt"))))
	if len(lines) != len(imageNames) {
		t.Fatalf("the list is %q", lines)
	}
	for i, name := range imageNames {
		digest, ok := strings.CutPrefix(lines[i], "registry.example.org/mediastack/"+name+":v1.2.3@sha256:")
		if !ok {
			t.Fatalf("the list has %s", lines[i])
		}
		index := run(t, nil, "tar", "--extract", "--to-stdout", "--file", filepath.Join(folder, "mediastack-"+name+"-v1.2.3.tar"), "blobs/sha256/"+digest)
		if !strings.Contains(index, `"platform":{"architecture":"`+runtime.GOARCH+`"`) || strings.Contains(index, "artifactType") {
			t.Errorf("the index of %s is %s", name, index)
		}
	}
}
