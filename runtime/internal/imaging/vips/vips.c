#include "vips.h"

#include <string.h>

// The loaders that untrusted files may reach, by the names libvips gives their classes.
static const char *const allowed[] = {
	"VipsForeignLoadJpegBuffer",
	"VipsForeignLoadPngBuffer",
	"VipsForeignLoadWebpBuffer",
	"VipsForeignLoadNsgifBuffer",
	"VipsForeignLoadHeifBuffer",
};

#define ALLOWED ((int) (sizeof(allowed) / sizeof(allowed[0])))

// An effort above this makes files a percent smaller and takes far longer.
#define WEBP_EFFORT 4
// vips_thumbnail_buffer of libvips 8.14 keeps its own fail_on from the loader, and would
// paint what is missing grey.
#define STRICT "[fail_on=error]"
// Thumbnails are small; this keeps them crisp.
#define THUMBNAIL_QUALITY 80

static void ms_silence(const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
}

int ms_start(void)
{
	g_log_set_default_handler(ms_silence, NULL);
	vips_concurrency_set(1);
	vips_operation_block_set("VipsForeignLoad", TRUE);
	for (int i = 0; i < ALLOWED; i++)
		vips_operation_block_set(allowed[i], FALSE);
	return 0;
}

// ms_open opens a file by its header; no pixel is decoded yet. An error on the way,
// a truncated end included, fails the reading of pixels.
static int ms_open(const void *buf, size_t len, VipsAccess access, VipsImage **out)
{
	*out = vips_image_new_from_buffer(buf, len, "",
		"access", access,
		"fail_on", VIPS_FAIL_ON_ERROR,
		NULL);
	return *out ? 0 : -1;
}

int ms_read_header(const void *buf, size_t len, ms_header *out)
{
	memset(out, 0, sizeof(*out));
	out->loader = -1;
	const char *name = vips_foreign_find_load_buffer(buf, len);
	vips_error_clear(); // what the loaders said that did not know the file
	if (!name)
		return 0;
	for (int i = 0; i < ALLOWED; i++)
		if (strcmp(name, allowed[i]) == 0)
			out->loader = i;
	if (out->loader < 0)
		return 0;

	VipsImage *image;
	if (ms_open(buf, len, VIPS_ACCESS_SEQUENTIAL, &image))
		return -1;
	out->width = vips_image_get_width(image);
	out->height = vips_image_get_height(image);
	out->frames = vips_image_get_n_pages(image);
	g_object_unref(image);
	return 0;
}

int ms_decode(const void *buf, size_t len, VipsImage **out)
{
	VipsImage *lazy;
	if (ms_open(buf, len, VIPS_ACCESS_SEQUENTIAL, &lazy))
		return -1;
	*out = vips_image_copy_memory(lazy);
	g_object_unref(lazy);
	return *out ? 0 : -1;
}

// ms_to_srgb brings an image to 8-bit sRGB (or 8-bit grey), alpha kept.
static int ms_to_srgb(VipsImage *in, VipsImage **out)
{
	VipsImage *converted = NULL;
	gboolean profile = vips_image_get_typeof(in, VIPS_META_ICC_NAME) != 0;
	gboolean cmyk = vips_image_get_interpretation(in) == VIPS_INTERPRETATION_CMYK;
	if (profile || cmyk) {
		if (vips_icc_transform(in, &converted, "srgb",
				"embedded", TRUE,
				"input_profile", cmyk ? "cmyk" : "srgb",
				"intent", VIPS_INTENT_RELATIVE,
				"depth", 8,
				NULL)) {
			// A profile that can't be used: as if there were none.
			vips_error_clear();
			converted = NULL;
		}
	}
	if (!converted && vips_colourspace(in, &converted, VIPS_INTERPRETATION_sRGB, NULL))
		return -1;
	if (vips_image_get_format(converted) != VIPS_FORMAT_UCHAR) {
		VipsImage *narrow;
		int failed = vips_cast(converted, &narrow, VIPS_FORMAT_UCHAR, NULL);
		g_object_unref(converted);
		if (failed)
			return -1;
		converted = narrow;
	}
	*out = converted;
	return 0;
}

static void *ms_forget(VipsImage *image, const char *field, GValue *value, void *data)
{
	GSList **names = (GSList **) data;
	*names = g_slist_prepend(*names, g_strdup(field));
	return NULL;
}

// ms_bare copies the image's description without any metadata.
static int ms_bare(VipsImage *in, VipsImage **out)
{
	if (vips_copy(in, out, NULL))
		return -1;
	GSList *names = NULL;
	vips_image_map(*out, ms_forget, &names);
	for (GSList *name = names; name; name = name->next)
		vips_image_remove(*out, (const char *) name->data);
	g_slist_free_full(names, g_free);
	return 0;
}

// ms_save writes WebP. The lossless encoder needs least memory with the least effort.
static int ms_save(VipsImage *in, int quality, int lossless, ms_output *out)
{
	VipsImage *bare;
	if (ms_bare(in, &bare))
		return -1;
	out->width = vips_image_get_width(bare);
	out->height = vips_image_get_height(bare);
	int failed = vips_webpsave_buffer(bare, &out->data, &out->length,
		"Q", quality,
		"effort", lossless ? 0 : WEBP_EFFORT,
		"lossless", lossless,
		"strip", TRUE,
		NULL);
	g_object_unref(bare);
	return failed ? -1 : 0;
}

// ms_finish_thumbnail converts what is small already. vips_thumbnail's own
// export_profile also shifts the colors of images that have no profile.
static int ms_finish_thumbnail(VipsImage *small, ms_output *out)
{
	VipsImage *plain;
	int failed = ms_to_srgb(small, &plain);
	g_object_unref(small);
	if (failed)
		return -1;
	failed = ms_save(plain, THUMBNAIL_QUALITY, FALSE, out);
	g_object_unref(plain);
	return failed;
}

int ms_thumbnail_buffer(const void *buf, size_t len, int width, int height, ms_output *out)
{
	VipsImage *header, *small;
	if (ms_open(buf, len, VIPS_ACCESS_SEQUENTIAL, &header))
		return -1;
	gboolean cmyk = vips_image_get_interpretation(header) == VIPS_INTERPRETATION_CMYK;
	g_object_unref(header);
	// vips_thumbnail shrinks CMYK in another space, and would bring it back to CMYK.
	int failed = cmyk
		? vips_thumbnail_buffer((void *) buf, len, &small, width,
			"height", height,
			"size", VIPS_SIZE_DOWN,
			"option_string", STRICT,
			"export_profile", "srgb",
			NULL)
		: vips_thumbnail_buffer((void *) buf, len, &small, width,
			"height", height,
			"size", VIPS_SIZE_DOWN,
			"option_string", STRICT,
			NULL);
	return failed ? -1 : ms_finish_thumbnail(small, out);
}

int ms_thumbnail_image(VipsImage *in, int width, int height, ms_output *out)
{
	VipsImage *small;
	if (vips_thumbnail_image(in, &small, width,
			"height", height,
			"size", VIPS_SIZE_DOWN,
			NULL))
		return -1;
	return ms_finish_thumbnail(small, out);
}

int ms_convert(const void *buf, size_t len, VipsImage *decoded, int quality, int lossless, ms_output *out)
{
	VipsImage *full = decoded;
	if (full)
		g_object_ref(full);
	else if (ms_open(buf, len, VIPS_ACCESS_SEQUENTIAL, &full))
		return -1;
	VipsImage *plain;
	int failed = ms_to_srgb(full, &plain);
	int orientation = vips_image_get_orientation(full);
	g_object_unref(full);
	if (failed)
		return -1;
	if (orientation > 1) {
		// Turning reads rows in another order than a sequential source gives them.
		VipsImage *memory = vips_image_copy_memory(plain);
		g_object_unref(plain);
		if (!memory)
			return -1;
		VipsImage *upright;
		failed = vips_autorot(memory, &upright, NULL);
		g_object_unref(memory);
		if (failed)
			return -1;
		plain = upright;
	}
	failed = ms_save(plain, quality, lossless, out);
	g_object_unref(plain);
	return failed;
}
