package api

import (
	"time"

	"mediastack.dev/runtime/media"
)

// URLs returns the URLs of files. delivery.URLs implements it.
type URLs interface {
	// URL returns where an object of an item can be fetched. It is signed and expires unless
	// the object is public.
	URL(item media.Item, object media.Object) string
}

// Documents builds the documents of items.
type Documents struct {
	URLs URLs
	// DraftTTL is the age at which a draft is purged.
	DraftTTL time.Duration
}

// Item returns the document of an item, which is the same by REST and TUS.
func (d Documents) Item(item media.Item) MediaItem {
	file := item.File()
	document := MediaItem{
		MediaId:          item.ID,
		OriginalFileName: item.FileName,
		MimeType:         file.MimeType,
		Size:             file.Bytes,
		Access:           Access(item.Access),
		File:             d.URLs.URL(item, file),
		Caption:          item.Caption,
		Group:            item.Group,
		Temp:             item.Draft(),
		CreatedAt:        timestamp(item.CreatedAt),
	}
	if item.Draft() {
		document.ExpiresAt = new(timestamp(item.CreatedAt.Add(d.DraftTTL)))
	} else {
		document.SealedAt = new(timestamp(*item.SealedAt))
	}
	if thumbnail, ok := item.Objects.Find(media.Thumbnail); ok {
		document.Thumbnail = d.URLs.URL(item, thumbnail)
	}
	if original, ok := item.Objects.Find(media.Original); ok {
		document.Sha256 = original.SHA256.String()
		if file.Variant != media.Original {
			document.Original = d.URLs.URL(item, original)
		}
	}
	return document
}

// timestamp returns a time as documents have it. The database has fewer digits than a clock, and an
// item has the same times before and after it was stored.
func timestamp(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }
