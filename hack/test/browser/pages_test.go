// Package browser_test has people log in to the shipped runtime with a real browser
// and real mail, as the pages promise: without JavaScript, by keyboard, on a phone.
package browser_test

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"mediastack.dev/hack/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPeopleLogIn(t *testing.T) {
	t.Parallel()
	newService(t).tell(t, "stories.mjs", nil)
}

// Where `make screenshots` wants all pictures, and the sheet of those of a login.
const (
	picturesEnv = "BROWSER_PICTURES"
	sheetEnv    = "BROWSER_SHEET"
	productEnv  = "BROWSER_PRODUCT"
)

func TestThePagesAreForEverybody(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	newService(t).tell(t, "look.mjs", map[string]any{"scratch": scratch, "pictures": os.Getenv(picturesEnv)})
	sheet := cmp.Or(os.Getenv(sheetEnv), filepath.Join(scratch, "small.png"))
	compress(t, filepath.Join(scratch, "login.png"), sheet)
}

func TestAPIReference_ShowsEveryOperation(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	newService(t).tell(t, "reference.mjs", map[string]any{"scratch": scratch})
	compress(t, filepath.Join(scratch, "product.png"), cmp.Or(os.Getenv(productEnv), filepath.Join(scratch, "small.png")))
}

// compress writes a picture for the documentation. With a palette it is a third of the
// size, and looks the same.
func compress(t *testing.T, from, to string) {
	t.Helper()
	_, err := run(t, t.TempDir(), scriptTimeout, find(t, "vips"), "pngsave", from, to, "--palette", "--Q", "90", "--compression", "9", "--strip")
	must(t, err)
	if info, err := os.Stat(to); err != nil || info.Size() > 400<<10 {
		t.Errorf("the picture has %d bytes: %v", info.Size(), err)
	}
}
