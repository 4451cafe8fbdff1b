package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// URLs returns the URLs of files. delivery.URLs implements it.
type URLs interface {
	// URL returns where an object of an item can be fetched. It is signed and expires unless
	// the object is public, which depends on the account's setting originals, too.
	URL(item media.Item, object media.Object, originals settings.Originals) string
	// FileURL returns the URL of the object that item.File returns at the time of a request.
	FileURL(item media.Item, originals settings.Originals) string
	// PictureURL returns where the picture of a preset at a density can be fetched; an empty format is none in
	// the address. It is signed and expires unless the item is public.
	PictureURL(item media.Item, preset string, density int, format settings.Format) string
}

// SettingsOf returns the settings of an account. It may be a cache.
type SettingsOf interface {
	Get(ctx context.Context, accountID uuid.UUID) (settings.Layers, error)
}

// Images says which files presets make pictures of. media.Renderer implements it.
type Images interface {
	Handles(mimeType string, bytes int64) bool
}

// Documents builds the documents of items.
type Documents struct {
	URLs URLs
	// Settings are those of accounts; nil = the defaults.
	Settings SettingsOf
	// Images is nil if no pictures of presets are made.
	Images Images
	// DraftTTL is the age at which a draft is purged.
	DraftTTL time.Duration
}

// Of returns the documents of an account's items, by its present settings. While these cannot be read, the URLs of
// originals are signed, which are valid whatever the settings are, and presets are an error.
func (d Documents) Of(ctx context.Context, accountID uuid.UUID) AccountDocuments {
	of := AccountDocuments{Documents: d, originals: settings.OriginalsSigned}
	if d.Settings == nil {
		of.originals = settings.OriginalsPublic
		return of
	}
	if of.layers, of.err = d.Settings.Get(ctx, accountID); of.err == nil {
		of.originals, _ = of.layers.Originals()
	}
	return of
}

// AccountDocuments builds the documents of one account's items.
type AccountDocuments struct {
	Documents
	layers    settings.Layers
	originals settings.Originals
	err       error // why the layers are not known
}

// Selected returns the document of an item for a part of its members.
func (d AccountDocuments) Selected(item media.Item, fields Selection) (MediaItem, error) {
	document := d.Item(item)
	if fields&fieldPresets == 0 {
		return document, nil
	}
	document.Presets = d.pictures(item)
	return document, d.err
}

// Item returns the document of an item, which is the same by REST and TUS.
func (d AccountDocuments) Item(item media.Item) MediaItem {
	file := item.File()
	document := MediaItem{
		MediaId:          item.ID,
		OriginalFileName: item.FileName,
		MimeType:         file.MimeType,
		Size:             file.Bytes,
		Access:           Access(item.Access),
		File:             d.URLs.FileURL(item, d.originals),
		Caption:          item.Caption,
		Group:            item.Group,
		Temp:             item.Draft(),
		CreatedAt:        timestamp(item.CreatedAt),
		Ref:              item.Ref,
		Width:            item.Facts.Width,
		Height:           item.Facts.Height,
		Placeholder:      item.Facts.Placeholder,
		DominantColor:    item.Facts.DominantColor,
		Duration:         float64(item.Facts.Duration.Milliseconds()) / 1000,
		Pages:            item.Facts.Pages,
		Metadata:         Metadata(item.Metadata),
	}
	document.CapturedAt, document.Capture = item.Capture.At, captureOf(item.Capture)
	if document.Metadata == nil {
		document.Metadata = Metadata{}
	}
	if item.Focus != nil {
		document.Focus = &Focus{X: float64(item.Focus.X) / 1000, Y: float64(item.Focus.Y) / 1000}
	}
	document.State = checkState(item)
	if item.Draft() {
		document.ExpiresAt = new(timestamp(item.CreatedAt.Add(d.DraftTTL)))
	} else {
		document.SealedAt = new(timestamp(*item.SealedAt))
	}
	if thumbnail, ok := item.Thumbnail(); ok {
		document.Thumbnail = d.URLs.URL(item, thumbnail, d.originals)
	}
	if original, ok := item.Objects.Find(media.Original); ok {
		document.Sha256 = original.SHA256.String()
		if file.Variant != media.Original {
			document.Original = d.URLs.URL(item, original, d.originals)
		}
	}
	return document
}

// captureOf returns the document of what a file says of how it was made; nil if it says nothing beside the time.
func captureOf(c capture.Capture) *Capture {
	if c.At = ""; !c.Known() {
		return nil
	}
	document := &Capture{Camera: c.Camera, Lens: c.Lens, Title: c.Title, Rating: c.Rating}
	if c.ContentCredentials {
		document.ContentCredentials = "present"
	}
	if c.Location != nil {
		document.Location = &Location{Latitude: c.Location.Latitude, Longitude: c.Location.Longitude}
	}
	return document
}

// The states of a draft whose file is checked before it is sealed.
const (
	StateChecking = "checking"
	StateRejected = "rejected"
)

// checkState returns the state of a draft that is not sealed since its file is checked, or was rejected; empty for all others.
func checkState(item media.Item) string {
	switch {
	case !item.Draft():
	case item.Check == media.CheckSealWanted:
		return StateChecking
	case item.Check == media.CheckRejected:
		return StateRejected
	}
	return ""
}

// Deleted returns the document of a deleted item.
func (d Documents) Deleted(item media.DeletedItem) DeletedItem {
	file := item.File()
	return DeletedItem{MediaId: item.ID, OriginalFileName: item.FileName, MimeType: file.MimeType, Size: file.Bytes, Access: Access(item.Access),
		Caption: item.Caption, Group: item.Group, CreatedAt: timestamp(item.CreatedAt), SealedAt: timestamp(*item.SealedAt),
		DeletedAt: timestamp(item.DeletedAt), ExpiresAt: timestamp(item.RestorableUntil)}
}

// RunningDocument returns the document of a running upload. baseURL is that of the service.
func RunningDocument(running upload.Running, baseURL string) RunningUpload {
	document := RunningUpload{UploadId: running.ID, OriginalFileName: running.Fields.FileName, Offset: running.Received, Access: Access(running.Fields.Access),
		Caption: running.Fields.Caption, Group: running.Fields.Group, CreatedAt: timestamp(running.CreatedAt), ExpiresAt: timestamp(running.ExpiresAt.Truncate(time.Second)),
		UploadUrl: baseURL + ResumableRoute + "/" + running.ID.String()}
	if running.Length != upload.UnknownLength {
		document.Size = &running.Length
	}
	return document
}

// DeletedAnswer returns the answer to a delete.
func (d Documents) DeletedAnswer(id MediaID, restorableUntil *time.Time) Deleted {
	answer := Deleted{Deleted: true, MediaId: id}
	if restorableUntil != nil {
		answer.ExpiresAt = new(timestamp(*restorableUntil))
	}
	return answer
}

// timestamp returns a time as documents have it. The database has fewer digits than a clock, and an
// item has the same times before and after it was stored.
func timestamp(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }
