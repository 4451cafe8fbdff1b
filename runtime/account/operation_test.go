package account

import "testing"

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

func TestOperation_ReadsOnlyIfItChangesNothing(t *testing.T) {
	t.Parallel()
	for operation, want := range map[Operation]bool{
		ListMedia: true, GetMedia: true, GetMediaCount: true, GetTotalStorage: true, GetMediaSettings: true, SearchMedia: true, ListDrafts: true, GetUploadFromURL: true,
		SealMedia: false, UpdateMedia: false, DeleteMedia: false, UploadMedia: false, UploadMediaFromURL: false, CreateUploadSignature: false, UpdateMediaSettings: false,
		"": false, "no_such_operation": false,
	} {
		if got := operation.Reads(); got != want {
			t.Errorf("%q: %t", operation, got)
		}
	}
}
