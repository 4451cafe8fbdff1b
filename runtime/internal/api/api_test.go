package api

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/settings"
)

var must = check.NoError

// spec returns the OpenAPI document.
func spec(t *testing.T) (document struct {
	Paths      map[string]any
	Components struct{ Schemas map[string]schema }
},
) {
	t.Helper()
	text, err := RenderSpec("http://media.test", "service")
	must(t, err)
	must(t, json.Unmarshal(text, &document))
	return document
}

type schema struct {
	Type       any
	Minimum    *int
	Maximum    *int
	Required   []string
	Enum       []string
	Properties map[string]schema
}

func TestRoutes_AreThoseOfTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	document := spec(t)
	for _, route := range []string{UploadRoute, SealRoute, ListRoute, CountRoute, TotalStorageRoute, GetRoute, ItemRoute, BatchRoute, DeleteRoute, UploadFromURLRoute, URLUploadRoute, ListDeletedRoute, ListGroupsRoute, MetadataKeysRoute, RestoreRoute, ListUploadsRoute, EndUploadRoute, EventsRoute,
		CreateSignatureRoute, GetSettingsRoute, UpdateSettingsRoute, SpecRoute, FilePath + "{mediaId}/{variant}/{name}"} {
		if document.Paths[route] == nil {
			t.Errorf("the document lacks %s", route)
		}
		delete(document.Paths, route)
	}
	if len(document.Paths) > 0 {
		t.Errorf("no constant stands for %v", document.Paths)
	}
}

func TestEventType_HasAllTypesOfTheJournal(t *testing.T) {
	t.Parallel()
	var types []string
	for _, kind := range journal.Types() {
		types = append(types, string(kind))
	}
	if enum := spec(t).Components.Schemas["EventType"].Enum; !slices.Equal(enum, types) {
		t.Errorf("the document has the types %q, want %q", enum, types)
	}
	kinds := spec(t).Components.Schemas["EventActor"].Properties["kind"].Enum
	for _, kind := range []account.ActorKind{account.ActorKey, account.ActorLogin, account.ActorPage, account.ActorCapability, account.ActorPurge, account.ActorService, account.ActorOperator} {
		if !slices.Contains(kinds, string(kind)) {
			t.Errorf("the document lacks the actor %q", kind)
		}
	}
}

// A setting in the table of package settings is in every schema without another change.
func TestRenderSpec_HasEverySetting(t *testing.T) {
	t.Parallel()
	schemas := spec(t).Components.Schemas
	document, change := schemas["Settings"], schemas["SettingsChange"]
	for _, field := range settings.Fields() {
		for _, got := range []schema{document.Properties[field.Name], change.Properties[field.Name]} {
			if got.Type != string(field.Kind) || (field.Kind == settings.Integer) != (got.Minimum != nil && *got.Minimum == field.Min && *got.Maximum == field.Max) {
				t.Errorf("%s: %+v", field.Name, got)
			}
		}
		if !slices.Contains(document.Required, field.Name) || !slices.Contains(document.Properties["sources"].Required, field.Name) {
			t.Errorf("%s is not required", field.Name)
		}
	}
	if len(document.Required) != len(settings.Fields())+1 {
		t.Errorf("required are %v", document.Required)
	}
}

func TestSettings_KeepTheOrderOfTheirFields(t *testing.T) {
	t.Parallel()
	quality := 40
	document := NewSettings(settings.Layers{Pinned: settings.Layer{WebPOutputQuality: &quality}, PinnedBy: "team-a/site"})
	text, err := json.Marshal(document)
	must(t, err)
	want := `{"useWebP":false,"webpOutputQuality":40,"thumbnailWidth":320,"thumbnailHeight":320,` +
		`"sources":{"useWebP":"default","webpOutputQuality":"pinned","thumbnailWidth":"default","thumbnailHeight":"default"},"pinnedBy":"team-a/site"}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	var read Settings
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, document) {
		t.Errorf("read %+v, %v", read, err)
	}
}

// The codes of the document are the only list of error codes.
func TestErrorCode_EveryCodeOfTheDocumentIsGenerated(t *testing.T) {
	t.Parallel()
	codes := spec(t).Components.Schemas["ErrorCode"].Enum
	if len(codes) == 0 {
		t.Fatal("the document has no codes")
	}
	for _, code := range codes {
		if !ErrorCode(code).Valid() {
			t.Errorf("%s is not valid", code)
		}
	}
}
