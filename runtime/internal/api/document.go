package api

import "mediastack.dev/runtime/media"

// URLs returns the URLs of files. delivery.URLs implements it.
type URLs interface {
	// URL returns where an object of an item can be fetched. It is signed and expires unless
	// the object is public.
	URL(item media.Item, object media.Object) string
}

// NewMediaItem returns the document of an item, which is the same on every interface.
func NewMediaItem(item media.Item, urls URLs) MediaItem {
	file := item.File()
	document := MediaItem{
		MediaId:          item.ID,
		OriginalFileName: item.FileName,
		MimeType:         file.MimeType,
		Size:             file.Bytes,
		Access:           Access(item.Access),
		File:             urls.URL(item, file),
		Caption:          item.Caption,
		Group:            item.Group,
		Temp:             item.Draft(),
	}
	if thumbnail, ok := item.Objects.Find(media.Thumbnail); ok {
		document.Thumbnail = urls.URL(item, thumbnail)
	}
	if original, ok := item.Objects.Find(media.Original); ok && file.Variant != media.Original {
		document.Original = urls.URL(item, original)
	}
	return document
}
