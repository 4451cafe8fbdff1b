package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/oauth"
)

// path is a path of the OpenAPI document.
type path struct {
	name      string
	operation account.Operation
}

// field is a member of a mapping in a YAML document.
type field struct {
	name  string
	line  int
	value *yaml.Node
}

// fields returns the members of a mapping.
func fields(of *yaml.Node) (found []field) {
	if of == nil || of.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(of.Content); i += 2 {
		found = append(found, field{of.Content[i].Value, of.Content[i].Line, of.Content[i+1]})
	}
	return found
}

// member returns a member of a mapping, nil if it has none of the name.
func member(of *yaml.Node, name string) *yaml.Node {
	for _, one := range fields(of) {
		if one.name == name {
			return one.value
		}
	}
	return nil
}

// methods are those of HTTP that a path of the document has.
var methods = []string{"get", "head", "post", "put", "patch", "delete"}

// readPaths returns the paths of the OpenAPI document, in their order. It fails if a path that logins reach has no
// known operation, or another scope than its operation.
func readPaths(root string) ([]path, error) {
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		return nil, err
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	if len(tree.Content) == 0 {
		return nil, fmt.Errorf("%s is empty", document)
	}
	byDefault := member(tree.Content[0], "security")
	var found []path
	for _, one := range fields(member(tree.Content[0], "paths")) {
		is := path{name: one.name}
		if named := member(one.value, "x-operation"); named != nil {
			is.operation = account.Operation(named.Value)
			if !is.operation.Known() {
				err = errors.Join(err, fmt.Errorf("%s:%d: %s does not have the operation %s", document, named.Line, source, is.operation))
			}
		}
		for _, method := range fields(one.value) {
			if slices.Contains(methods, method.name) {
				err = errors.Join(err, checkScopes(is, method, byDefault))
			}
		}
		found = append(found, is)
	}
	return found, err
}

// checkScopes compares the scopes that a method of a path requires with that of the operation. A path without an
// operation names several, one in each body: then it lists the scopes of all.
func checkScopes(of path, method field, byDefault *yaml.Node) error {
	security, own := byDefault, member(method.value, "security")
	if own != nil {
		security = own
	}
	var scopes []string
	line := method.line
	for _, alternative := range security.Content {
		if login := member(alternative, "login"); login != nil {
			for _, scope := range login.Content {
				scopes = append(scopes, scope.Value)
				if own != nil {
					line = scope.Line
				}
			}
		}
	}
	switch {
	case len(scopes) == 0: // no login reaches it
		return nil
	case of.operation == "" && len(scopes) == 1:
		return fmt.Errorf("%s:%d: %s names no x-operation, so logins need the permission to write for it", document, method.line, of.name)
	case of.operation != "" && !slices.Equal(scopes, []string{string(oauth.ScopeOf(of.operation))}):
		return fmt.Errorf("%s:%d: %s %s requires the scopes %v, but %s says that %s requires %s: change one of them", document, line, method.name, of.name, scopes, source, of.operation, oauth.ScopeOf(of.operation))
	}
	return nil
}
