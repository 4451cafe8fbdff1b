package media_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
)

func TestWriterOfKey_IsThatOfWriterKey(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for _, variant := range []media.Variant{media.Original, media.WebP, media.Thumbnail} {
		for _, number := range []int64{1, 12, 1<<63 - 1} {
			key := media.WriterKey(id, variant, number)
			if itemID, found, ok := media.WriterOfKey(key); !ok || itemID != id || found != number {
				t.Errorf("%s is of item %s and writer %d, %t", key, itemID, found, ok)
			}
			if got := media.VariantOfKey(key); got != variant {
				t.Errorf("%s has the variant %s", key, got)
			}
		}
		key := media.ObjectKey(id, variant)
		if _, number, ok := media.WriterOfKey(key); ok {
			t.Errorf("%s is of writer %d", key, number)
		}
		if got := media.VariantOfKey(key); got != variant {
			t.Errorf("%s has the variant %s", key, got)
		}
	}
	if low, high := media.WriterKey(uuid.UUID{1}, media.WebP, 2), media.WriterKey(uuid.UUID{2}, media.Original, 1); low >= high {
		t.Errorf("%s is not listed before %s", low, high)
	}
}

// malformedKeys are keys of an adopted bucket that look like those of writers.
func malformedKeys() []string {
	const id = "018f0a3b-1111-8222-8333-444444444444"
	return []string{
		"", "/", "//", "media/", "media//", "media//original.1", "media/" + id, "media/" + id + "/", "media/" + id + "/original",
		"media/" + id + "/original.", "media/" + id + "/original.x", "media/" + id + "/original.0x1", "media/" + id + "/original.1_0",
		"media/" + id + "/original.01", "media/" + id + "/original.+1", "media/" + id + "/original.1 ", "media/" + id + "/original. 1",
		"media/" + id + "/original.9223372036854775808", "media/" + id + "/original.1.2", "media/" + id + "/original.webp.1",
		"media/" + id + "/original.1/", "media/" + id + "/a/original.1", "/media/" + id + "/original.1", "MEDIA/" + id + "/original.1",
		"other/" + id + "/original.1", "media/" + strings.ToUpper(id) + "/original.1", "media/{" + id + "}/original.1",
		"media/urn:uuid:" + id + "/original.1", "media/" + strings.ReplaceAll(id, "-", "") + "/original.1", "media/x/original.1",
		"media/" + id + "/rendition-" + id, "_mediastack/owner.json",
	}
}

func TestWriterOfKey_RejectsWhatNoWriterStores(t *testing.T) {
	t.Parallel()
	for _, key := range malformedKeys() {
		if itemID, number, ok := media.WriterOfKey(key); ok || itemID != uuid.Nil || number != 0 {
			t.Errorf("%q is of item %s and writer %d, %t", key, itemID, number, ok)
		}
	}
}

// What WriterOfKey finds in a key is all of it: no other key has the same item, variant and writer. So no key of others is removed.
func FuzzWriterOfKey(f *testing.F) {
	for _, key := range append(malformedKeys(), media.WriterKey(uuid.New(), media.Original, 1), media.WriterKey(uuid.New(), media.Thumbnail, 1<<62)) {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		variant := media.VariantOfKey(key)
		if strings.ContainsAny(string(variant), ".") {
			t.Errorf("%q has the variant %q", key, variant)
		}
		itemID, number, ok := media.WriterOfKey(key)
		if !ok {
			if itemID != uuid.Nil || number != 0 {
				t.Errorf("%q is of no writer, but of item %s and writer %d", key, itemID, number)
			}
			return
		}
		if again := media.WriterKey(itemID, variant, number); again != key {
			t.Errorf("%q is taken for %q", key, again)
		}
	})
}
