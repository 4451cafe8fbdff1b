// Package gitops checks the Flux manifests of the guide "Install with GitOps". It is a module of its own,
// so that Flux's types are no dependency of the product.
package gitops

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

var yamlBlock = regexp.MustCompile("(?sm)^```yaml\n(.*?)^```$")

func TestFluxManifests_AreThoseOfFlux(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{helmv2.AddToScheme, kustomizev1.AddToScheme, sourcev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var kinds []string
	for _, page := range []string{"gitops-install.md", "manage-accounts-with-gitops.md"} {
		text, err := os.ReadFile("../../docs/guides/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
			documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(block[1])))
			for {
				document, err := documents.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(document, []byte("toolkit.fluxcd.io/")) {
					continue
				}
				_, kind, err := strict.Decode(document, nil, nil)
				if err != nil {
					t.Errorf("%s: %v\n%s", page, err, document)
					continue
				}
				kinds = append(kinds, kind.Kind)
			}
		}
	}
	slices.Sort(kinds)
	if want := []string{"HelmRelease", "Kustomization", "Kustomization", "Kustomization", "OCIRepository"}; !slices.Equal(kinds, want) {
		t.Errorf("the guides have %s, want %s", kinds, want)
	}
}
