package browser_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// fullEnv asks for ten files of 50 MB, which is 500 MB of memory for the files and as much for the store. Otherwise they are smaller, and each is one request.
const fullEnv = "MEDIASTACK_TEST_FULL"

// makeLargeFiles returns a folder with ten files that do not compress.
func makeLargeFiles(t *testing.T) string {
	t.Helper()
	size := int64(2 << 20)
	if os.Getenv(fullEnv) != "" {
		size = 50_000_000
	}
	folder := t.TempDir()
	for n := range 10 {
		name := fmt.Sprintf("Recording %d.bin", n)
		file, err := os.Create(filepath.Join(folder, name))
		must(t, err)
		_, err = io.CopyN(file, rand.NewChaCha8(sha256.Sum256([]byte(name))), size)
		must(t, err)
		must(t, file.Close())
	}
	return folder
}

func TestLibrary_TakesLargeFilesAndShowsManySoon(t *testing.T) {
	t.Parallel()
	newService(t).runScript(t, "large.mjs", map[string]any{"large": makeLargeFiles(t), "owner": filmmaker})
}
