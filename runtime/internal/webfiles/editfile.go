package webfiles

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

// emptyPairs is how many pairs of metadata a user can add at once.
const emptyPairs = 2

// pairsOf returns metadata in the order of its keys.
func pairsOf(metadata media.Metadata) []pages.Pair {
	var pairs []pages.Pair
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		pairs = append(pairs, pages.Pair{Key: key, Value: metadata[key]})
	}
	return pairs
}

// editOf returns the fields of an item.
func editOf(item media.Item) *pages.EditFile {
	return &pages.EditFile{Name: item.FileName, Caption: item.Caption, Group: item.Group, Public: item.Access == media.Public, Metadata: withEmptyPairs(pairsOf(item.Metadata)), Version: item.Version}
}

func withEmptyPairs(pairs []pages.Pair) []pages.Pair {
	return append(pairs, make([]pages.Pair, max(0, min(emptyPairs, media.MaxMetadataPairs-len(pairs))))...)
}

// typedEdit returns the fields that a user typed.
func typedEdit(form url.Values) *pages.EditFile {
	return &pages.EditFile{Name: form.Get("name"), Caption: form.Get("caption"), Group: form.Get("group"), Public: form.Get("access") == string(media.Public), Metadata: withEmptyPairs(typedPairs(form)), Open: true}
}

// typedPairs returns the pairs of metadata in a form, without the empty ones.
func typedPairs(form url.Values) []pages.Pair {
	var pairs []pages.Pair
	for n := range media.MaxMetadataPairs + emptyPairs {
		pair := pages.Pair{Key: strings.TrimSpace(form.Get("key" + strconv.Itoa(n))), Value: form.Get("value" + strconv.Itoa(n))}
		if pair.Key != "" || pair.Value != "" {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// typedTexts returns the texts of an edit that the user may want back when the session has ended.
func typedTexts(form url.Values) []pages.Typed {
	var texts []pages.Typed
	for _, field := range []struct{ name, title string }{{"name", "Name"}, {"caption", "Caption"}, {"group", "Group"}} {
		if text := form.Get(field.name); text != "" {
			texts = append(texts, pages.Typed{Name: field.title, Text: text})
		}
	}
	for _, pair := range typedPairs(form) {
		texts = append(texts, pages.Typed{Name: pair.Key, Text: pair.Value})
	}
	return texts
}

// lines returns a text with the line ends of text areas, which send others than they were given.
func lines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// changed returns a text that a user sent, or nil if it is the present one but for its line ends.
func changed(sent, present string) *string {
	if sent = lines(sent); sent == lines(present) {
		return nil
	}
	return &sent
}

// fieldError is an error about a field of a form, which the page shows beside it.
type fieldError struct {
	field string // nameField or metadataField
	error
}

// The fields that errors are shown beside.
const (
	nameField     = "name"
	metadataField = "metadata"
)

// Unwrap returns the error.
func (e fieldError) Unwrap() error { return e.error }

// checkName returns an error for a name that would be stored otherwise than it was typed: names of uploads are cut and cleaned, and nobody sees them before.
func checkName(name string) error {
	name = strings.TrimSpace(name)
	var problem string
	switch clean := media.CleanFileName(name); {
	case name == "":
		problem = "Type a name."
	case strings.ContainsAny(name, `/\`):
		problem = `A name cannot have the characters / and \.`
	case len(name) > media.MaxFileName:
		problem = fmt.Sprintf("The name has %d bytes. It can have %d at most.", len(name), media.MaxFileName)
	case clean != name:
		problem = "The name has characters that cannot be kept: invisible ones, or dots alone."
	default:
		return nil
	}
	return fieldError{nameField, fault.New(fault.Invalid, "%s", problem)}
}

// readEdit returns the change that a form asks for. What the form does not have stays as it is.
func readEdit(form url.Values, item media.Item) (media.Change, error) {
	var change media.Change
	if form.Has("name") {
		if change.FileName = changed(form.Get("name"), item.FileName); change.FileName != nil {
			if err := checkName(*change.FileName); err != nil {
				return change, err
			}
		}
	}
	if form.Has("caption") {
		change.Caption = changed(form.Get("caption"), item.Caption)
	}
	if form.Has("group") {
		change.Group = changed(form.Get("group"), item.Group)
	}
	if access := media.Access(form.Get("access")); form.Has("access") && access != item.Access {
		change.Access = &access
	}
	if form.Has("key0") {
		metadata := map[string]*string{}
		for _, pair := range typedPairs(form) {
			if pair.Key == "" {
				return change, fieldError{metadataField, fault.New(fault.Invalid, "Type a key for each value of the metadata.")}
			}
			if _, twice := metadata[pair.Key]; twice {
				return change, fieldError{metadataField, fault.New(fault.Invalid, "The metadata has the key %.100q twice.", pair.Key)}
			}
			value := item.Metadata[pair.Key]
			if sent := changed(pair.Value, value); sent != nil {
				value = *sent
			}
			metadata[pair.Key] = &value
		}
		change.Metadata, change.ReplaceMetadata = metadata, true
		if err := (media.Change{Metadata: metadata, ReplaceMetadata: true}).Validate(); err != nil {
			return change, fieldError{metadataField, err}
		}
	}
	return change, change.Validate()
}

// errChangedMeanwhile is the error of an edit of another version than the present one.
var errChangedMeanwhile = fault.New(fault.PreconditionFailed, "Someone else has changed this file meanwhile. What you typed is still in the form: save again to replace what is there now.")

// editFile changes the name, the caption, the group, the access and the metadata of an item. After an error the page has what the user typed.
func (a *API) editFile(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	o, err := a.findFileOwner(w, r, session, form.Get("account"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	item, _, err := a.itemOf(r.Context(), o, form, account.UpdateMedia)
	if err == nil {
		var change media.Change
		change, err = readEdit(form, item)
		condition := media.Condition{}
		if text := form.Get("version"); err == nil && text != "" {
			version, unreadable := strconv.Atoi(text)
			if condition.Versions = []int{version}; unreadable != nil {
				err = fault.New(fault.Invalid, "The form cannot be read. Open the file again.")
			}
		}
		if err == nil {
			if _, err = a.Media.Update(r.Context(), o.principal, item.ID, change, condition); fault.Is(err, fault.PreconditionFailed) {
				err = errChangedMeanwhile
			}
		}
	}
	if err != nil {
		a.writeViewPage(w, r, o, form, viewMessage{err: err, edit: typedEdit(form)})
		return
	}
	a.Login.SeeOther(w, o.url(viewFilePath, with(url.Values{}, "item", item.ID.String(), "back", backQuery(form).Encode(), "done", "changed")))
}
