package rest

import (
	"encoding/json"
	"net/http"
	"slices"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/settings"
)

// GetSettings answers GET /settings/media/get.
func (a *API) GetSettings(w http.ResponseWriter, r *http.Request) {
	reply(w, r, func() (api.Settings, error) {
		layers, err := a.deps.Settings.Get(r.Context(), principal(r).Account.ID)
		return api.NewSettings(layers), err
	})
}

// GetSettingsByPost answers POST /settings/media/get.
func (a *API) GetSettingsByPost(w http.ResponseWriter, r *http.Request) {
	a.withoutFields(w, r, func() { a.GetSettings(w, r) })
}

// UpdateSettings answers POST /settings/media/create.
func (a *API) UpdateSettings(w http.ResponseWriter, r *http.Request) {
	reply(w, r, func() (api.Settings, error) {
		text, err := a.readBody(w, r)
		if err != nil {
			return api.Settings{}, err
		}
		change, err := readChange(text)
		if err != nil {
			return api.Settings{}, err
		}
		outcome, err := a.deps.Settings.Update(r.Context(), principal(r).Account.ID, change)
		document := api.NewSettings(outcome.Layers)
		document.Changed = &outcome.Changed
		return document, err
	})
}

// readChange reads the fields to change. A field that does not exist, or has the
// wrong type, refuses the whole change by name: a setting that is misspelt must not
// seem to have been taken. The other fields of api.Settings are ignored, so that a
// document that was read can be changed and written back.
func readChange(text []byte) (settings.Layer, error) {
	if len(text) == 0 {
		return settings.Layer{}, fault.New(fault.Invalid, "the body must be a JSON object")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return settings.Layer{}, fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
	}
	var change settings.Layer
	for _, name := range sorted(fields) {
		switch name {
		case "sources", "pinnedBy", "changed":
			continue
		}
		if err := change.Set(name, fields[name]); err != nil {
			return settings.Layer{}, err
		}
	}
	return change, nil
}

func sorted(fields map[string]json.RawMessage) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var null = []byte("null")
