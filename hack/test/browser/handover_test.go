package browser_test

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// reporter owns the account that has files handed over.
const reporter = "vera.lind@example.org"

// makeHandedOver returns a file that does not compress: of 200 MB at full size, which is several requests, and otherwise of one.
func makeHandedOver(t *testing.T) string {
	t.Helper()
	size := int64(3 << 20)
	if os.Getenv(fullEnv) != "" {
		size = 200_000_000
	}
	path := filepath.Join(t.TempDir(), "Interview.bin")
	file, err := os.Create(path)
	must(t, err)
	_, err = io.CopyN(file, rand.NewChaCha8(sha256.Sum256([]byte(path))), size)
	must(t, err)
	must(t, file.Close())
	return path
}

func TestHandover_WorksInTheBrowser(t *testing.T) {
	t.Parallel()
	newService(t).runScript(t, "handover.mjs", map[string]any{"large": makeHandedOver(t), "owner": reporter})
}
