package mcp

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// maxShortText is the length in characters from which on a caption, or a value of metadata, is cut off in a list of the toolset slim.
const maxShortText = 100

// shortItem is an item in the lists of the toolset slim. What is empty, or not chosen, is absent.
type shortItem struct {
	MediaID   uuid.UUID  `json:"mediaId"`
	FileName  string     `json:"fileName,omitempty"`
	MimeType  string     `json:"mimeType,omitempty"`
	Size      *int64     `json:"size,omitempty"`
	Access    api.Access `json:"access,omitempty"`
	Caption   string     `json:"caption,omitempty"`
	Group     string     `json:"group,omitempty"`
	CreatedAt *time.Time `json:"createdAt,omitempty"`
	SealedAt  *time.Time `json:"sealedAt,omitempty"`
	DeletedAt *time.Time `json:"deletedAt,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// CapturedAt is not a time: it may have no offset, or be a year only.
	CapturedAt string         `json:"capturedAt,omitempty"`
	Width      int            `json:"width,omitempty"`
	Height     int            `json:"height,omitempty"`
	Metadata   media.Metadata `json:"metadata,omitempty"`
	Ref        string         `json:"ref,omitempty"`
	State      string         `json:"state,omitempty"`
	Cut        []string       `json:"cut,omitempty"`
}

// shortField is a member of an item that a list can have.
type shortField struct {
	property
	copy func(to *shortItem, from api.MediaItem)
}

// shortFieldsOfItems are the members that the argument fields chooses from, in their order. Only a deleted item has deletedAt: see
// shortFields.deleted.
var shortFieldsOfItems = []shortField{
	{prop("fileName", str(), "Name of the uploaded file."), func(to *shortItem, from api.MediaItem) { to.FileName = from.OriginalFileName }},
	{prop("mimeType", str(), "MIME type of the file."), func(to *shortItem, from api.MediaItem) { to.MimeType = from.MimeType }},
	{prop("size", intMin(0), "Bytes of the file."), func(to *shortItem, from api.MediaItem) { to.Size = &from.Size }},
	{prop("access", enum(string(media.Public), string(media.Private)), "Who may read the file once it is sealed."), func(to *shortItem, from api.MediaItem) { to.Access = from.Access }},
	{prop("caption", str(), "Text that describes the file."), func(to *shortItem, from api.MediaItem) { to.Caption = to.cut("caption", from.Caption) }},
	{prop("group", str(), "Label of the item."), func(to *shortItem, from api.MediaItem) { to.Group = from.Group }},
	{prop("createdAt", dateTime(), "When the upload was complete."), func(to *shortItem, from api.MediaItem) { to.CreatedAt = seconds(&from.CreatedAt) }},
	{prop("sealedAt", dateTime(), "When the item was sealed."), func(to *shortItem, from api.MediaItem) { to.SealedAt = seconds(from.SealedAt) }},
	{prop("deletedAt", dateTime(), "When the item was deleted."), nil},
	{prop("expiresAt", dateTime(), "When a draft is deleted unless it is sealed; until when a deleted item can be restored."), func(to *shortItem, from api.MediaItem) { to.ExpiresAt = seconds(from.ExpiresAt) }},
	{prop("capturedAt", str(), "When a photo or a recording was made, as its file says it."), func(to *shortItem, from api.MediaItem) { to.CapturedAt = from.CapturedAt }},
	{prop("width", intMin(1), "Width of an image in pixels."), func(to *shortItem, from api.MediaItem) { to.Width = from.Width }},
	{prop("height", intMin(1), "Height of an image in pixels."), func(to *shortItem, from api.MediaItem) { to.Height = from.Height }},
	{prop("metadata", textMap(), "The pairs of the item."), func(to *shortItem, from api.MediaItem) { to.Metadata = to.cutAll(from.Metadata) }},
	{prop("ref", str(), "Reference of the server that requested the upload signature."), func(to *shortItem, from api.MediaItem) { to.Ref = from.Ref }},
}

// shortFields names the members of the items of a list.
type shortFields struct{ chosen []string }

// fieldsOfList says which members the items of a list can have, and which they have by default.
type fieldsOfList struct {
	defaults, others []string
	drafts           bool
}

// The lists. The defaults are chosen so that 100 items with names and captions of the usual length take less than 7,000 tokens; see decision 0054.
var (
	listedFields = fieldsOfList{
		defaults: []string{"fileName", "caption", "group", "createdAt"},
		others:   []string{"mimeType", "size", "access", "sealedAt", "capturedAt", "width", "height", "metadata", "ref"},
	}
	draftFields = fieldsOfList{
		defaults: []string{"fileName", "caption", "group", "expiresAt"},
		others:   []string{"mimeType", "size", "access", "createdAt", "width", "height", "metadata", "ref"}, drafts: true,
	}
	deletedFields = fieldsOfList{
		defaults: []string{"fileName", "caption", "group", "deletedAt"},
		others:   []string{"mimeType", "size", "access", "createdAt", "sealedAt", "expiresAt", "width", "height", "metadata"},
	}
)

// listOf returns the list of a state of items.
func listOf(state string) fieldsOfList {
	if state == "draft" {
		return draftFields
	}
	return listedFields
}

func (l fieldsOfList) names() []string { return slices.Concat(l.defaults, l.others) }

// shortList returns what the toolset slim changes in a list.
func shortList(v view, list fieldsOfList) *extension {
	defaults := strings.Join(list.defaults[:len(list.defaults)-1], ", ") + " and " + list.defaults[len(list.defaults)-1]
	item := outputObject(prop("mediaId", uuidString(), "Id of the item."))
	for _, field := range shortFieldsOfItems {
		if slices.Contains(list.names(), field.name) {
			item.Properties = append(item.Properties, field.property)
		}
	}
	if list.drafts {
		item.Properties = append(item.Properties, prop("state", enum(api.StateChecking, api.StateRejected), "Set while the file is checked, or when it was rejected; absent otherwise."))
	}
	item.Properties = append(item.Properties, prop("cut", array(str()), "Names of the texts that are cut off, and end with …; absent when none is."))
	return &extension{
		toolsets: []string{account.ToolsetSlim},
		description: " The items are short and have no URLs" + v.when(account.GetMedia, ": get_media returns all of one item") + ". Members without a value are absent." +
			" Texts are cut off after 100 characters: don't write back one that is named in `cut`.",
		input: properties{prop("fields", array(enum(list.names()...)), "Members of the items beside mediaId. Leave out for "+defaults+".")},
		items: &item,
	}
}

// shortFields reads the argument fields of a list. It returns nil where the caller does not have the toolset slim.
func (a *arguments) shortFields(v view, list fieldsOfList) *shortFields {
	if !v.has(account.ToolsetSlim) {
		return nil
	}
	chosen := list.defaults
	if named := read[[]string](a, "fields", "a list of strings"); named != nil {
		chosen = *named
	}
	for _, name := range chosen {
		if a.err == nil && !slices.Contains(list.names(), name) {
			a.err = fault.New(fault.Invalid, "fields must be a list of %s", httpapi.Or(list.names()))
		}
	}
	return &shortFields{chosen}
}

// item returns the short form of an item.
func (f *shortFields) item(documents documents, of media.Item) shortItem {
	full := documents.Item(of)
	short := f.of(full)
	short.State = full.State
	return short
}

// deleted returns the short form of a deleted item.
func (f *shortFields) deleted(of media.DeletedItem) shortItem {
	full := documentOfDeleted(of)
	short := f.of(api.MediaItem{MediaId: full.MediaId, OriginalFileName: full.OriginalFileName, MimeType: full.MimeType, Size: full.Size, Access: full.Access, Caption: full.Caption, Group: full.Group,
		CreatedAt: full.CreatedAt, SealedAt: &full.SealedAt, ExpiresAt: &full.ExpiresAt, Width: full.Width, Height: full.Height, Metadata: api.Metadata(full.Metadata)})
	if slices.Contains(f.chosen, "deletedAt") {
		short.DeletedAt = seconds(&full.DeletedAt)
	}
	return short
}

func (f *shortFields) of(full api.MediaItem) shortItem {
	short := shortItem{MediaID: full.MediaId}
	for _, field := range shortFieldsOfItems {
		if field.copy != nil && slices.Contains(f.chosen, field.name) {
			field.copy(&short, full)
		}
	}
	return short
}

// cut returns the beginning of a text, and notes that it is one. A model must not take it for the text.
func (s *shortItem) cut(name, text string) string {
	if utf8.RuneCountInString(text) <= maxShortText {
		return text
	}
	if !slices.Contains(s.Cut, name) {
		s.Cut = append(s.Cut, name)
	}
	return string([]rune(text)[:maxShortText]) + "…"
}

func (s *shortItem) cutAll(pairs api.Metadata) media.Metadata {
	short := make(media.Metadata, len(pairs))
	for key, value := range pairs {
		short[key] = s.cut("metadata", value)
	}
	return short
}

// seconds returns a time without its fraction, which takes a token and says nothing to a model.
func seconds(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	return new(at.UTC().Truncate(time.Second))
}

// item returns the schema of a single item. See documents.one.
func (v view) item() schema {
	if v.has(account.ToolsetSlim) {
		return detailedMediaItem(v)
	}
	return mediaItem(v)
}
