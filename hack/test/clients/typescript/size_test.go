package typescript_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

// sizes is a row of the table of the README: an import, and kilobytes without and with gzip.
var sizes = regexp.MustCompile(`(?m)^\| (.+) \| ([\d.]+) kB \| ([\d.]+) kB \|$`)

func TestReadme_StatesTheSizesOfBundles(t *testing.T) {
	t.Parallel()
	client, tools := buildClient(t), node.New(t, "hack/test/clients/tus")
	readme, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "clients/typescript/README.md"))
	must(t, err)
	imports := map[string]string{
		"`MediastackClient`": `import { MediastackClient } from './dist/index.js'; globalThis.used = MediastackClient`,
		"`MediastackClient`, and everything of `@mediastack/client/react`, without React": `import { MediastackClient } from './dist/index.js'
import * as react from './dist/react/index.js'
globalThis.used = [MediastackClient, ...Object.values(react)]`,
		"`Picture` alone, without React": `import { Picture } from './dist/react/index.js'; globalThis.used = Picture`,
	}
	rows := sizes.FindAllStringSubmatch(string(readme), -1)
	if len(rows) != len(imports) {
		t.Fatalf("the README has %d rows, the test knows %d", len(rows), len(imports))
	}
	for i, row := range rows {
		code, ok := imports[row[1]]
		if !ok {
			t.Errorf("the test does not know %s", row[1])
			continue
		}
		script, out := filepath.Join(client, fmt.Sprintf("size%d.mjs", i)), filepath.Join(client, fmt.Sprintf("size%d.js", i))
		must(t, os.WriteFile(script, []byte(code), 0o600))
		testenv.Run(t, toolTimeout, client, tools.Module(".bin/esbuild"), script, "--bundle", "--minify", "--format=esm", "--external:react", "--external:react/jsx-runtime", "--outfile="+out, "--log-level=error")
		bundle, err := os.ReadFile(out)
		must(t, err)
		var compressed bytes.Buffer
		writer, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
		must(t, err)
		_, err = writer.Write(bundle)
		must(t, err)
		must(t, writer.Close())
		for column, got := range map[int]int{2: len(bundle), 3: compressed.Len()} {
			stated, err := strconv.ParseFloat(row[column], 64)
			must(t, err)
			if kB := float64(got) / 1000; kB > 1.05*stated+0.05 || kB < 0.95*stated-0.05 {
				t.Errorf("%s is of %.1f kB, the README states %s kB", row[1], kB, row[column])
			}
		}
	}
}
