// Package browser_test tests the login pages and the files page of the shipped runtime in Chromium, with real mail:
// without JavaScript, by keyboard, and on a phone.
package browser_test

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"mediastack.dev/hack/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLogin_WorksInTheBrowser(t *testing.T) {
	t.Parallel()
	newService(t).runScript(t, "scenarios.mjs", nil)
}

// picturesEnv is the folder into which `make screenshots` wants the pictures of all pages in all states, and documentsEnv the one of the pictures in the documentation. Without it they are
// compared with those that are there.
const (
	picturesEnv  = "BROWSER_PICTURES"
	documentsEnv = "BROWSER_DOCUMENTS"
)

func TestPages_AreAccessible(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	newService(t).runScript(t, "screenshots.mjs", map[string]any{"scratch": scratch, "pictures": os.Getenv(picturesEnv)})
	document(t, scratch, "login.png", "files.png", "components.png")
}

func TestAPIReference_ShowsEveryOperation(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	newService(t).runScript(t, "reference.mjs", map[string]any{"scratch": scratch})
	document(t, scratch, "product.png")
}

// document writes pictures for the documentation, or requires that those which it has show the same.
func document(t *testing.T, scratch string, names ...string) {
	t.Helper()
	for _, name := range names {
		folder := cmp.Or(os.Getenv(documentsEnv), t.TempDir())
		compress(t, filepath.Join(scratch, name), filepath.Join(folder, name))
		if os.Getenv(documentsEnv) == "" {
			compare(t, filepath.Join(testenv.RepoRoot(t), "docs", name), filepath.Join(folder, name))
		}
	}
}

// compress writes a picture for the documentation. With a palette it is a third of the
// size, and looks the same.
func compress(t *testing.T, from, to string) {
	t.Helper()
	testenv.Run(t, scriptTimeout, t.TempDir(), testenv.Program(t, "vips"), "pngsave", from, to, "--palette", "--Q", "90", "--compression", "9", "--strip")
	if info, err := os.Stat(to); err != nil || info.Size() > 400<<10 {
		t.Errorf("the picture has %d bytes: %v", info.Size(), err)
	}
}
