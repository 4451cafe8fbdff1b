package rest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// mergePatch is the media type of a JSON merge patch (RFC 7396).
const mergePatch = "application/merge-patch+json"

// UpdateMedia answers PATCH /media/{mediaId}.
func (a *API) UpdateMedia(w http.ResponseWriter, r *http.Request, id api.MediaID, params api.UpdateMediaParams) {
	change, condition, err := readUpdate(w, r, id, deref(params.IfMatch))
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	item, err := a.deps.Media.Update(r.Context(), principal(r), id, change, condition)
	if err != nil {
		if fault.Is(err, fault.PreconditionFailed) {
			w.Header().Set("ETag", etag(item))
			err = fault.Wrap(err, fault.PreconditionFailed, "If-Match names %s; the item's ETag is %s%s", httpapi.Truncate(deref(params.IfMatch)), etag(item), weakHint(deref(params.IfMatch)))
		}
		httpapi.WriteError(w, r, err)
		return
	}
	a.writeItem(w, r, http.StatusOK, item)
}

func readUpdate(w http.ResponseWriter, r *http.Request, id uuid.UUID, ifMatch string) (media.Change, media.Condition, error) {
	if len(r.Header.Values(ifMatchHeader)) > 0 && strings.Trim(ifMatch, " \t") == "" {
		return media.Change{}, media.Condition{}, fault.New(fault.Invalid, "If-Match is empty")
	}
	condition, err := readCondition(id, ifMatch)
	if err != nil {
		return media.Change{}, condition, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != mergePatch && kind != "application/json" {
		w.Header().Set("Accept-Patch", mergePatch+", application/json")
		return media.Change{}, condition, fault.New(fault.UnsupportedType, "the body must be %s or application/json", mergePatch)
	}
	text, err := readBody(w, r)
	if err != nil {
		return media.Change{}, condition, err
	}
	change, err := readChange(text)
	return change, condition, err
}

// readChange reads a merge patch. An unknown member rejects it: a misspelt one would seem to have been
// applied.
func readChange(text json.RawMessage) (media.Change, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil { // an empty body included
		return media.Change{}, fault.New(fault.Invalid, "a patch must be a JSON object")
	}
	var change media.Change
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := setMember(&change, name, members[name]); err != nil {
			return media.Change{}, err
		}
	}
	return change, change.Validate()
}

// setMember reads a member of a patch. null removes the value: what is left is that of an upload
// without it.
func setMember(change *media.Change, name string, value json.RawMessage) (err error) {
	switch name {
	case "caption":
		change.Caption, err = removable(name, value, "")
	case "group":
		change.Group, err = removable(name, value, "")
	case "access":
		var access *string
		if access, err = removable(name, value, string(media.Private)); err == nil {
			change.Access = new(media.Access(*access))
		}
	case "fileName":
		if httpapi.IsNull(value) {
			return fault.New(fault.Invalid, "fileName cannot be removed")
		}
		change.FileName, err = removable(name, value, "")
	case "metadata":
		if change.ReplaceMetadata = httpapi.IsNull(value); change.ReplaceMetadata {
			return nil
		}
		change.Metadata, err = httpapi.ReadPairs("metadata", value)
	case "focus":
		change.SetFocus = true
		change.Focus, err = readFocus(value)
	case "originalFileName":
		return fault.New(fault.Invalid, "unknown field %q: to rename, send fileName", name)
	default:
		return fault.New(fault.Invalid, "unknown field %q", httpapi.Truncate(name))
	}
	return err
}

// removable reads a string, or null, which stands for the value removed.
func removable(name string, value json.RawMessage, removed string) (*string, error) {
	if httpapi.IsNull(value) {
		return &removed, nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, fault.New(fault.Invalid, "%s must be a string", name)
	}
	return &text, nil
}

// readFocus reads a point, or null, which is nil.
func readFocus(value json.RawMessage) (*media.FocusPoint, error) {
	if httpapi.IsNull(value) {
		return nil, nil
	}
	invalid := fault.New(fault.Invalid, `focus must be null, or an object such as {"x": 0.5, "y": 0.25}`)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil || len(members) != 2 {
		return nil, invalid
	}
	var point media.FocusPoint
	for name, target := range map[string]*int{"x": &point.X, "y": &point.Y} {
		var fraction *float64
		if err := json.Unmarshal(members[name], &fraction); err != nil || fraction == nil {
			return nil, invalid
		}
		if *fraction < 0 || *fraction > 1 {
			return nil, fault.New(fault.Invalid, "x and y of focus must be from 0 to 1")
		}
		*target = int(math.Round(*fraction * 1000))
	}
	return &point, nil
}

// etag returns the entity tag of an item's document. It is strong: it changes with every change of the
// item, but not with the signatures of its URLs. It contains the item, so that a client that confuses two items changes neither.
func etag(item media.Item) string {
	return `"` + etagPrefix(item.ID) + strconv.Itoa(item.Version) + `"`
}

// etagPrefix returns what the entity tags of an item have before its version: shorter than the text of the id, so that an
// error can quote a tag.
func etagPrefix(id uuid.UUID) string { return base64.RawURLEncoding.EncodeToString(id[:]) + "." }

// weakHint returns what to add to an error if a header has weak ETags.
func weakHint(header string) string {
	if strings.Contains(header, "W/") {
		return "; weak ETags are not accepted"
	}
	return ""
}

const ifMatchHeader = "If-Match"

// rejectCondition rejects If-Match on a request that cannot depend on it: without the condition, the request
// would do what the client wanted to prevent (RFC 9110, section 13.1.1).
func rejectCondition(r *http.Request) error {
	if len(r.Header.Values(ifMatchHeader)) > 0 {
		return fault.New(fault.Invalid, "If-Match is for changes (PATCH /media/{mediaId}) only")
	}
	return nil
}

// readUnconditional is readNoFields of a request that cannot depend on a condition.
func readUnconditional(w http.ResponseWriter, r *http.Request) error {
	if err := rejectCondition(r); err != nil {
		return err
	}
	return readNoFields(w, r)
}

// readCondition reads If-Match. A tag that the item cannot have matches none, and so does a weak one.
func readCondition(id uuid.UUID, header string) (media.Condition, error) {
	header = strings.Trim(header, " \t")
	if header == "" || header == "*" {
		return media.Condition{}, nil
	}
	condition := media.Condition{Versions: []int{}}
	for rest := trimElements(header); rest != ""; rest = trimElements(rest) {
		opaque, weak := strings.CutPrefix(rest, "W/")
		opaque, opened := strings.CutPrefix(opaque, `"`)
		text, after, closed := strings.Cut(opaque, `"`) // a tag may contain a comma
		rest = strings.TrimLeft(after, " \t")
		if !opened || !closed || rest != "" && rest[0] != ',' {
			return condition, fault.New(fault.Invalid, `If-Match must be *, or ETags in quotation marks, as the header ETag of an item has them`)
		}
		text, ofItem := strings.CutPrefix(text, etagPrefix(id))
		if version, err := strconv.Atoi(text); err == nil && ofItem && version > 0 && !weak && strconv.Itoa(version) == text {
			condition.Versions = append(condition.Versions, version)
		}
	}
	return condition, nil
}

// trimElements returns a list without the commas and empty elements that it begins with (RFC 9110, section
// 5.6.1).
func trimElements(list string) string { return strings.TrimLeft(list, ", \t") }

// joinIfMatch returns the middleware that joins the lines of If-Match, which is a list.
func joinIfMatch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lines := r.Header.Values("If-Match"); len(lines) > 1 {
			r.Header.Set("If-Match", strings.Join(lines, ", "))
		}
		next.ServeHTTP(w, r)
	})
}
