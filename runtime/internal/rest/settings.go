package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/settings"
)

// GetSettings answers GET /settings/media/get.
func (a *API) GetSettings(w http.ResponseWriter, r *http.Request) {
	layers, err := a.deps.Settings.Get(r.Context(), principal(r).Account.ID)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.NewSettings(layers))
}

// GetSettingsByPost answers POST /settings/media/get.
func (a *API) GetSettingsByPost(w http.ResponseWriter, r *http.Request) {
	if err := readNoFields(w, r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.GetSettings(w, r)
}

// UpdateSettings answers POST /settings/media/create.
func (a *API) UpdateSettings(w http.ResponseWriter, r *http.Request) {
	change, err := readSettingsChange(w, r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	by := principal(r)
	outcome, err := a.deps.Settings.UpdateFor(r.Context(), by, change)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	document := api.NewSettings(outcome.Layers)
	document.Changed = &outcome.Changed
	httpapi.WriteJSON(w, r, http.StatusOK, document)
}

// readSettingsChange reads the settings to change. An unknown setting, or a value of another
// type, rejects the whole change. One that is absent stays as it is. The other fields of api.Settings are ignored, so that a
// client can read a document, change it and write it back.
func readSettingsChange(w http.ResponseWriter, r *http.Request) (settings.Layer, error) {
	text, err := readBody(w, r)
	if err != nil {
		return settings.Layer{}, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil { // an empty body included
		return settings.Layer{}, fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
	}
	var change settings.Layer
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch name {
		case "sources", "pinnedBy", "changed":
			continue
		}
		if settings.IsSetting(name) && httpapi.Absent(fields[name]) {
			continue
		}
		if err := change.Set(name, fields[name]); err != nil {
			return settings.Layer{}, err
		}
	}
	return change, nil
}
