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

// Where `make screenshots` wants all pictures, the sheet of those of a login, and single ones.
const (
	picturesEnv = "BROWSER_PICTURES"
	sheetEnv    = "BROWSER_SHEET"
	productEnv  = "BROWSER_PRODUCT"
	filesEnv    = "BROWSER_FILES"
)

func TestPages_AreAccessible(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	newService(t).runScript(t, "screenshots.mjs", map[string]any{"scratch": scratch, "pictures": os.Getenv(picturesEnv)})
	sheet := cmp.Or(os.Getenv(sheetEnv), filepath.Join(scratch, "small.png"))
	compress(t, filepath.Join(scratch, "login.png"), sheet)
	compress(t, filepath.Join(scratch, "files.png"), cmp.Or(os.Getenv(filesEnv), filepath.Join(scratch, "small-files.png")))
}

func TestAPIReference_ShowsEveryOperation(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	newService(t).runScript(t, "reference.mjs", map[string]any{"scratch": scratch})
	compress(t, filepath.Join(scratch, "product.png"), cmp.Or(os.Getenv(productEnv), filepath.Join(scratch, "small.png")))
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
