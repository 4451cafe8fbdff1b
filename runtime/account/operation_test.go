package account

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

func TestToolPolicy_AllowsWhatBothOfItsPartsAllow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy    ToolPolicy
		operation Operation
		want      bool
	}{
		{ToolPolicy{}, GetMedia, true},
		{ToolPolicy{}, SealMedia, true},
		{ToolPolicy{}, "", true},
		{ToolPolicy{ReadOnly: true}, GetMedia, true},
		{ToolPolicy{ReadOnly: true}, SealMedia, false},
		{ToolPolicy{ReadOnly: true}, "", false},
		{ToolPolicy{Tools: []string{"x", "seal_media"}}, SealMedia, true},
		{ToolPolicy{Tools: []string{"x"}}, GetMedia, false},
		{ToolPolicy{Tools: []string{}}, GetMedia, false},
		{ToolPolicy{ReadOnly: true, Tools: []string{"seal_media"}}, SealMedia, false},
		{ToolPolicy{ReadOnly: true, Tools: []string{"get_media"}}, GetMedia, true},
	} {
		if got := tt.policy.Allows(tt.operation); got != tt.want {
			t.Errorf("%+v, %q: %t", tt.policy, tt.operation, got)
		}
	}
}

func TestToolPolicy_OffersTheToolsOfItsToolsets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		toolsets []string
		want     bool
	}{{nil, true}, {[]string{ToolsetCore}, true}, {[]string{ToolsetFind, ToolsetCore}, true}, {[]string{ToolsetFind}, false}, {[]string{}, false}} {
		if got := (ToolPolicy{Toolsets: tt.toolsets}).Offers(GetMedia); got != tt.want {
			t.Errorf("%v: %t", tt.toolsets, got)
		}
	}
}

// What the table says is not repeated here, but for what would let a change or a delete pass as harmless.
func TestOperation_UnknownOnesNeedThePermissionToWrite(t *testing.T) {
	t.Parallel()
	for operation, want := range map[Operation]Access{GetMedia: Reading, CreateUploadSignature: Writing, DeleteMedia: Deleting, "": Writing, "no_such_operation": Writing} {
		if got := operation.Access(); got != want || operation.Reads() != (want == Reading) {
			t.Errorf("%q: %d", operation, got)
		}
	}
}

// A constant that is missing in the table would be an unknown operation.
func TestOperations_AreAllConstants(t *testing.T) {
	t.Parallel()
	constants := map[string][]string{}
	file, err := parser.ParseFile(token.NewFileSet(), "operation.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for n := range ast.Preorder(file) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			continue
		}
		value, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			continue
		}
		kind := "toolset"
		if is, ok := spec.Type.(*ast.Ident); ok {
			kind = is.Name
		}
		text, err := strconv.Unquote(value.Value)
		if err != nil {
			t.Fatal(err)
		}
		constants[kind] = append(constants[kind], text)
	}
	var names []string
	for _, one := range Operations() {
		names = append(names, string(one))
		if !slices.Contains(append(Toolsets(), ToolsetApproval), one.Toolset()) { // that set cannot be chosen
			t.Errorf("%s has the unknown toolset %q", one, one.Toolset())
		}
	}
	for kind, listed := range map[string][]string{"Operation": names, "toolset": append(Toolsets(), ToolsetApproval)} {
		if want, got := slices.Sorted(slices.Values(constants[kind])), slices.Sorted(slices.Values(listed)); !slices.Equal(got, want) {
			t.Errorf("the constants of operation.go are %q, the list has %q", want, got)
		}
	}
}
