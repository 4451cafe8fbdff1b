package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"mediastack.dev/runtime/account"
)

//go:embed openapi.yaml
var openAPITemplate []byte

// RenderSpec returns the OpenAPI document as JSON: with baseURL as its server, brand in the names of
// the headers, the schemas of the settings, and without the extensions that only the code generator
// reads.
func RenderSpec(baseURL, brand string) ([]byte, error) {
	var document map[string]any
	branded := bytes.ReplaceAll(openAPITemplate, []byte("x-service-"), []byte("x-"+brand+"-"))
	if err := yaml.Unmarshal(branded, &document); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	document["servers"] = []any{map[string]any{"url": strings.TrimRight(baseURL, "/")}}
	components, _ := document["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	addSettings(schemas)
	addSelection(schemas)
	stripExtensions(document)
	return json.Marshal(document)
}

// Operations returns the operations of the paths: x-operation in the document.
func Operations() (map[string]account.Operation, error) {
	var document struct {
		Paths map[string]struct {
			Operation account.Operation `json:"x-operation"`
		}
	}
	if err := yaml.Unmarshal(openAPITemplate, &document); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	found := map[string]account.Operation{}
	for path, item := range document.Paths {
		if item.Operation == "" {
			continue
		}
		if !item.Operation.Known() {
			return nil, fmt.Errorf("openapi.yaml: %s has the operation %s, which account/operation.go does not have", path, item.Operation)
		}
		found[path] = item.Operation
	}
	return found, nil
}

func stripExtensions(node any) {
	switch node := node.(type) {
	case map[string]any:
		for name, child := range node {
			if name == "x-order" || strings.HasPrefix(name, "x-go-") {
				delete(node, name)
				continue
			}
			stripExtensions(child)
		}
	case []any:
		for _, child := range node {
			stripExtensions(child)
		}
	}
}
