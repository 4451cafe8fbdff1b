package rest

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/settings"
)

// GetSettings answers GET /settings/media/get.
func (a *API) GetSettings(w http.ResponseWriter, r *http.Request) {
	reply(w, r, func() (api.Settings, error) {
		layers, err := a.Settings.Get(r.Context(), principal(r).Account.ID)
		return settingsDocument(layers), err
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
		outcome, err := a.Settings.Update(r.Context(), principal(r).Account.ID, change)
		document := settingsDocument(outcome.Layers)
		document.Changed = &outcome.Changed
		return document, err
	})
}

// settingsDocument shows what is in force and where it comes from.
func settingsDocument(layers settings.Layers) api.Settings {
	effective, sources := layers.Effective(), layers.Sources()
	document := api.Settings{
		UseWebP:           effective.UseWebP,
		WebpOutputQuality: effective.WebPOutputQuality,
		ThumbnailWidth:    effective.ThumbnailWidth,
		ThumbnailHeight:   effective.ThumbnailHeight,
	}
	document.Sources.UseWebP = api.Source(sources["useWebP"])
	document.Sources.WebpOutputQuality = api.Source(sources["webpOutputQuality"])
	document.Sources.ThumbnailWidth = api.Source(sources["thumbnailWidth"])
	document.Sources.ThumbnailHeight = api.Source(sources["thumbnailHeight"])
	if len(layers.Pinned.Fields()) > 0 {
		document.PinnedBy = layers.PinnedBy
	}
	return document
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
		var err error
		switch name {
		case "useWebP":
			change.UseWebP, err = boolean(name, fields[name])
		case "webpOutputQuality":
			change.WebPOutputQuality, err = integer(name, fields[name])
		case "thumbnailWidth":
			change.ThumbnailWidth, err = integer(name, fields[name])
		case "thumbnailHeight":
			change.ThumbnailHeight, err = integer(name, fields[name])
		case "sources", "pinnedBy", "changed":
		default:
			err = fault.New(fault.Invalid, "there is no setting %q", name)
		}
		if err != nil {
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

func boolean(name string, text json.RawMessage) (*bool, error) {
	var field bool
	if err := json.Unmarshal(text, &field); err != nil || bytes.Equal(text, null) {
		return nil, fault.New(fault.Invalid, "%s must be true or false", name)
	}
	return &field, nil
}

// integer takes 80.0 too: a client's language may know one kind of number only.
func integer(name string, text json.RawMessage) (*int, error) {
	var number float64
	if err := json.Unmarshal(text, &number); err != nil || bytes.Equal(text, null) ||
		number != math.Trunc(number) || math.Abs(number) > math.MaxInt32 {
		return nil, fault.New(fault.Invalid, "%s must be an integer", name)
	}
	field := int(number)
	return &field, nil
}
