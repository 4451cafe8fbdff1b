package rest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"sigs.k8s.io/yaml"
)

// source is written for any brand and address.
//
//go:embed openapi.yaml
var source []byte

// describe fills the address and the brand into the description of the service, and
// leaves out what only the code generator reads.
func describe(baseURL, brand string) ([]byte, error) {
	var document map[string]any
	branded := bytes.ReplaceAll(source, []byte("x-service-"), []byte("x-"+brand+"-"))
	if err := yaml.Unmarshal(branded, &document); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	document["servers"] = []any{map[string]any{"url": strings.TrimRight(baseURL, "/")}}
	withoutHints(document)
	return json.Marshal(document)
}

func withoutHints(node any) {
	switch node := node.(type) {
	case map[string]any:
		for name, child := range node {
			if name == "x-order" || strings.HasPrefix(name, "x-go-") {
				delete(node, name)
				continue
			}
			withoutHints(child)
		}
	case []any:
		for _, child := range node {
			withoutHints(child)
		}
	}
}

func (a *API) describeService(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(a.description) // a client that is gone needs no answer
}
