package docs_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"mediastack.dev/hack/testenv"
)

// The values of the HelmRelease and of the Application are accepted by the chart's schema.
func TestGitOps_ValuesFitTheChart(t *testing.T) {
	t.Parallel()
	page := pages(t)["docs/guides/gitops-install.md"]
	found := 0
	for _, block := range regexp.MustCompile("(?sm)^```yaml\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader([]byte(block[1]))))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			object := map[string]any{}
			if err := sigsyaml.UnmarshalStrict(document, &object); err != nil {
				t.Fatalf("%v\n%s", err, document)
			}
			for _, path := range [][]string{{"spec", "values"}, {"spec", "source", "helm", "valuesObject"}} {
				values, has, err := unstructured.NestedMap(object, path...)
				must(t, err)
				if has {
					found++
					render(t, values)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("the guide has %d times values, want 2", found)
	}
}

// render renders the chart with values.
func render(t *testing.T, values map[string]any) {
	t.Helper()
	text, err := sigsyaml.Marshal(values)
	must(t, err)
	file := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	testenv.Run(t, time.Minute, "..", testenv.Helm(t), "template", "mediastack", "charts/mediastack", "--values", file)
}
