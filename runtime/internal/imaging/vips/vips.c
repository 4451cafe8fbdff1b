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

// The formats of pictures, with the values and the names of package imageformat: Start compares them.
enum { MS_AUTO, MS_WEBP, MS_AVIF, MS_JPEG, MS_PNG };
static const char *const formats[] = {
	[MS_AUTO] = "auto", [MS_WEBP] = "webp", [MS_AVIF] = "avif", [MS_JPEG] = "jpeg", [MS_PNG] = "png",
};

#define FORMATS ((int) (sizeof(formats) / sizeof(formats[0])))

// ms_format returns the name of a format; NULL if ms_save has none of this value.
const char *ms_format(int format)
{
	return format >= 0 && format < FORMATS ? formats[format] : NULL;
}

// An effort above this makes files a percent smaller and takes far longer.
#define WEBP_EFFORT 4
// vips_thumbnail_buffer of libvips 8.14 keeps its own fail_on from the loader, and would
// paint what is missing grey.
#define STRICT "[fail_on=error]"
// The most effort that keeps AVIF of 4 megapixels within seconds (docs/decisions/0006).
#define AVIF_EFFORT 2
// A level of zlib above this makes photos a percent smaller.
#define PNG_COMPRESSION 6
// A mild unsharp mask: a radius of half a pixel, and no more than 6 of 100 levels of lightness.
#define SHARPEN_SIGMA 0.5
#define SHARPEN_MOST 6.0
// A picture that must fit a number of bytes loses quality down to FIT_QUALITY, by steps; then it shrinks by FIT_SCALE and begins again.
#define FIT_QUALITY 35
#define FIT_STEP 15
#define FIT_SCALE 0.75
// With fewer pixels a picture says nothing.
#define FIT_PIXELS 64

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
	gboolean swap = vips_image_get_orientation_swap(image);
	out->width = swap ? vips_image_get_height(image) : vips_image_get_width(image);
	out->height = swap ? vips_image_get_width(image) : vips_image_get_height(image);
	out->frames = vips_image_get_n_pages(image);
	out->alpha = vips_image_hasalpha(image);
	out->cmyk = vips_image_get_interpretation(image) == VIPS_INTERPRETATION_CMYK;
	int whole = vips_image_get_width(image);
	g_object_unref(image);

	if (strcmp(name, "VipsForeignLoadHeifBuffer") == 0) {
		VipsImage *embedded = vips_image_new_from_buffer(buf, len, "", "thumbnail", TRUE, NULL);
		if (!embedded) {
			vips_error_clear(); // there is the image itself
			return 0;
		}
		// Without a thumbnail, libvips opens the image.
		if (vips_image_get_width(embedded) < whole) {
			out->embedded_width = vips_image_get_width(embedded);
			out->embedded_height = vips_image_get_height(embedded);
		}
		g_object_unref(embedded);
	}
	return 0;
}

// ms_open_shrunk opens a JPEG that is shrunk by 2, 4 or 8 while it is loaded.
static int ms_open_shrunk(const void *buf, size_t len, int shrink, VipsImage **out)
{
	*out = vips_image_new_from_buffer(buf, len, "",
		"access", VIPS_ACCESS_SEQUENTIAL,
		"fail_on", VIPS_FAIL_ON_ERROR,
		"shrink", shrink,
		NULL);
	return *out ? 0 : -1;
}

// ms_decode decodes a file into memory: shrunk by 2, 4 or 8 while loading, which only JPEG can do, or all of its
// frames, one above the other.
int ms_decode(const void *buf, size_t len, int shrink, int frames, VipsImage **out)
{
	VipsImage *lazy;
	if (shrink > 1) {
		if (ms_open_shrunk(buf, len, shrink, &lazy))
			return -1;
	}
	else if (frames > 1)
		lazy = vips_image_new_from_buffer(buf, len, "",
			"access", VIPS_ACCESS_SEQUENTIAL,
			"fail_on", VIPS_FAIL_ON_ERROR,
			"n", frames,
			NULL);
	else if (ms_open(buf, len, VIPS_ACCESS_SEQUENTIAL, &lazy))
		return -1;
	if (!lazy)
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

// ms_replace puts the result of an operation in the place of its input.
static int ms_replace(VipsImage **image, int failed, VipsImage *result)
{
	if (failed)
		return -1;
	g_object_unref(*image);
	*image = result;
	return 0;
}

// ms_rgb gives an image that may be grey three colours, for a background.
static int ms_rgb(VipsImage **image)
{
	if (vips_image_get_bands(*image) > 2)
		return 0;
	VipsImage *colours = NULL;
	int failed = vips_colourspace(*image, &colours, VIPS_INTERPRETATION_sRGB, NULL);
	return ms_replace(image, failed, colours);
}

// ms_background returns the colour of a recipe for an image.
static VipsArrayDouble *ms_background(VipsImage *image, const ms_recipe *recipe)
{
	double colour[4] = { recipe->background[0], recipe->background[1], recipe->background[2], 255 };
	return vips_array_double_new(colour, vips_image_get_bands(image));
}

// ms_flatten puts an image onto the background.
static int ms_flatten(VipsImage **image, const ms_recipe *recipe)
{
	if (ms_rgb(image))
		return -1;
	VipsImage *flat = NULL;
	VipsArrayDouble *background = vips_array_double_new(recipe->background, 3);
	int failed = vips_flatten(*image, &flat, "background", background, NULL);
	vips_area_unref(VIPS_AREA(background));
	return ms_replace(image, failed, flat);
}

// ms_settle decides the format of a picture, and removes an alpha channel that is opaque or that the format
// can't have. WebP's encoder does that by itself.
static int ms_settle(VipsImage **image, const ms_recipe *recipe, int *format)
{
	*format = recipe->format;
	if (!vips_image_hasalpha(*image)) {
		if (*format == MS_AUTO)
			*format = MS_JPEG;
		return 0;
	}
	if (*format == MS_WEBP)
		return 0;
	if (*format == MS_JPEG)
		return ms_flatten(image, recipe);

	VipsImage *memory = vips_image_copy_memory(*image);
	if (ms_replace(image, !memory, memory))
		return -1;
	int colours = vips_image_get_bands(*image) - 1;
	VipsImage *alpha;
	double least = 0;
	if (vips_extract_band(*image, &alpha, colours, NULL))
		return -1;
	int failed = vips_min(alpha, &least, NULL);
	g_object_unref(alpha);
	if (failed)
		return -1;
	if (*format == MS_AUTO)
		*format = least < 255 ? MS_PNG : MS_JPEG;
	if (least < 255)
		return 0;
	VipsImage *opaque = NULL;
	failed = vips_extract_band(*image, &opaque, 0, "n", colours, NULL);
	return ms_replace(image, failed, opaque);
}

// ms_save writes a picture without metadata. The lossless encoder of WebP needs least memory with the least effort.
static int ms_save(VipsImage *in, const ms_recipe *recipe, ms_output *out)
{
	VipsImage *bare;
	if (ms_bare(in, &bare))
		return -1;
	int failed = ms_settle(&bare, recipe, &out->format);
	out->width = vips_image_get_width(bare);
	out->height = vips_image_get_height(bare);
	if (!failed)
		switch (out->format) {
		case MS_WEBP:
			failed = vips_webpsave_buffer(bare, &out->data, &out->length,
				"Q", recipe->quality,
				"effort", recipe->lossless ? 0 : WEBP_EFFORT,
				"lossless", recipe->lossless,
				"strip", TRUE,
				NULL);
			break;
		case MS_AVIF:
			failed = vips_heifsave_buffer(bare, &out->data, &out->length,
				"Q", recipe->quality,
				"compression", VIPS_FOREIGN_HEIF_COMPRESSION_AV1,
				"effort", AVIF_EFFORT,
				"bitdepth", 8,
				"strip", TRUE,
				NULL);
			break;
		case MS_JPEG:
			failed = vips_jpegsave_buffer(bare, &out->data, &out->length,
				"Q", recipe->quality,
				"optimize_coding", TRUE,
				"strip", TRUE,
				NULL);
			break;
		default:
			failed = vips_pngsave_buffer(bare, &out->data, &out->length,
				"compression", PNG_COMPRESSION,
				"filter", VIPS_FOREIGN_PNG_FILTER_ALL,
				"strip", TRUE,
				NULL);
		}
	g_object_unref(bare);
	return failed ? -1 : 0;
}

// ms_shrink_to shrinks a file, or what was decoded of it, and turns it upright. vips_thumbnail's own export_profile also
// shifts the colors of images that have no profile. It shrinks CMYK in another space, and would bring it back to CMYK.
static int ms_shrink_to(const void *buf, size_t len, VipsImage *decoded, int shrink, int width, int height, VipsSize size, VipsImage **out)
{
	if (!decoded && shrink > 1) {
		VipsImage *shrunk;
		if (ms_open_shrunk(buf, len, shrink, &shrunk))
			return -1;
		int failed = ms_shrink_to(buf, len, shrunk, 0, width, height, size, out);
		g_object_unref(shrunk);
		return failed;
	}
	if (decoded)
		return vips_image_get_interpretation(decoded) == VIPS_INTERPRETATION_CMYK
			? vips_thumbnail_image(decoded, out, width, "height", height, "size", size, "export_profile", "srgb", NULL)
			: vips_thumbnail_image(decoded, out, width, "height", height, "size", size, NULL);
	VipsImage *header;
	if (ms_open(buf, len, VIPS_ACCESS_SEQUENTIAL, &header))
		return -1;
	gboolean cmyk = vips_image_get_interpretation(header) == VIPS_INTERPRETATION_CMYK;
	g_object_unref(header);
	return cmyk
		? vips_thumbnail_buffer((void *) buf, len, out, width, "height", height, "size", size, "option_string", STRICT, "export_profile", "srgb", NULL)
		: vips_thumbnail_buffer((void *) buf, len, out, width, "height", height, "size", size, "option_string", STRICT, NULL);
}

// ms_shrink is ms_shrink_to the size of a recipe. The box decides, as vipsthumbnail has it; where its rounding, after
// a shrink while loading, misses the exact size by a pixel, that size is forced. The thumbnail in a HEIF file
// that misses it may be another picture: the image itself is decoded then.
static int ms_shrink(const void *buf, size_t len, VipsImage *decoded, const ms_recipe *recipe, VipsImage **out)
{
	if (ms_shrink_to(buf, len, decoded, recipe->shrink, recipe->box_width, recipe->box_height, VIPS_SIZE_DOWN, out))
		return -1;
	if (!recipe->exact || (vips_image_get_width(*out) == recipe->shrunk_width && vips_image_get_height(*out) == recipe->shrunk_height))
		return 0;
	g_object_unref(*out);
	*out = NULL;
	VipsImage *whole = NULL;
	const char *name = decoded ? NULL : vips_foreign_find_load_buffer(buf, len);
	if (name && strcmp(name, "VipsForeignLoadHeifBuffer") == 0 && ms_decode(buf, len, 1, 1, &whole))
		return -1;
	int failed = ms_shrink_to(buf, len, whole ? whole : decoded, recipe->shrink, recipe->shrunk_width, recipe->shrunk_height, VIPS_SIZE_FORCE, out);
	if (whole)
		g_object_unref(whole);
	return failed ? -1 : 0;
}

// ms_upright opens a file at its full size, in sRGB, and turns it upright.
static int ms_upright(const void *buf, size_t len, VipsImage *decoded, VipsImage **out)
{
	VipsImage *full = decoded;
	if (full)
		g_object_ref(full);
	else if (ms_open(buf, len, VIPS_ACCESS_SEQUENTIAL, &full))
		return -1;
	int failed = ms_to_srgb(full, out);
	int orientation = vips_image_get_orientation(full);
	g_object_unref(full);
	if (failed)
		return -1;
	if (orientation > 1) {
		// Turning reads rows in another order than a sequential source gives them.
		VipsImage *memory = vips_image_copy_memory(*out);
		VipsImage *upright = NULL;
		failed = ms_replace(out, !memory, memory) || vips_autorot(*out, &upright, NULL);
		if (ms_replace(out, failed, upright)) {
			g_object_unref(*out);
			return -1;
		}
	}
	return 0;
}

// ms_cut cuts the picture out of an image that is larger. at is where it was cut; it is used if the focus is MS_AT.
static int ms_cut(VipsImage **image, const ms_recipe *recipe, int focus, int *left, int *top)
{
	int width = vips_image_get_width(*image), height = vips_image_get_height(*image);
	if (recipe->width >= width && recipe->height >= height)
		return 0;
	VipsImage *cut = NULL;
	if (focus == MS_AT) {
		int failed = vips_extract_area(*image, &cut, *left, *top, recipe->width, recipe->height, NULL);
		return ms_replace(image, failed, cut);
	}
	VipsImage *memory = vips_image_copy_memory(*image);
	if (ms_replace(image, !memory, memory))
		return -1;
	int failed = vips_smartcrop(*image, &cut, recipe->width, recipe->height,
		"interesting", focus == MS_ENTROPY ? VIPS_INTERESTING_ENTROPY : VIPS_INTERESTING_ATTENTION,
		NULL);
	if (ms_replace(image, failed, cut))
		return -1;
	*left = -vips_image_get_xoffset(*image);
	*top = -vips_image_get_yoffset(*image);
	return 0;
}

// ms_pad puts an image that is smaller than the picture into the middle of the background.
static int ms_pad(VipsImage **image, const ms_recipe *recipe)
{
	int width = vips_image_get_width(*image), height = vips_image_get_height(*image);
	if (recipe->width <= width && recipe->height <= height)
		return 0;
	if (ms_rgb(image))
		return -1;
	VipsImage *padded = NULL;
	VipsArrayDouble *background = ms_background(*image, recipe);
	int failed = vips_embed(*image, &padded, (recipe->width - width) / 2, (recipe->height - height) / 2, recipe->width, recipe->height,
		"extend", VIPS_EXTEND_BACKGROUND,
		"background", background,
		NULL);
	vips_area_unref(VIPS_AREA(background));
	return ms_replace(image, failed, padded);
}

// ms_draw makes the picture of a recipe: it shrinks, converts to sRGB what is small already, cuts, sharpens and pads.
static int ms_draw(const void *buf, size_t len, VipsImage *decoded, const ms_recipe *recipe, int focus, int *left, int *top, VipsImage **out)
{
	if (recipe->box_width == 0)
		return ms_upright(buf, len, decoded, out);
	VipsImage *small;
	if (ms_shrink(buf, len, decoded, recipe, &small))
		return -1;
	int failed = ms_to_srgb(small, out);
	g_object_unref(small);
	if (failed)
		return -1;
	if (recipe->exact) {
		failed = ms_cut(out, recipe, focus, left, top);
		if (!failed && recipe->sharpen) {
			VipsImage *sharp = NULL;
			failed = vips_sharpen(*out, &sharp, "sigma", SHARPEN_SIGMA, "y2", SHARPEN_MOST, "y3", SHARPEN_MOST, NULL);
			failed = ms_replace(out, failed, sharp);
		}
		failed = failed || ms_pad(out, recipe);
	}
	if (failed)
		g_object_unref(*out);
	return failed ? -1 : 0;
}

// ms_fit writes a picture of at most max_bytes, which may be smaller than the recipe has it.
static int ms_fit(VipsImage **image, const ms_recipe *recipe, ms_output *out)
{
	VipsImage *memory = vips_image_copy_memory(*image); // it is encoded several times
	if (ms_replace(image, !memory, memory))
		return -1;
	// Shrinking mixes the colours of transparent pixels into others.
	if (vips_image_hasalpha(*image) && ms_flatten(image, recipe))
		return -1;
	for (;;) {
		ms_recipe attempt = *recipe;
		for (;;) {
			if (ms_save(*image, &attempt, out))
				return -1;
			if (out->length <= recipe->max_bytes)
				return 0;
			g_free(out->data);
			memset(out, 0, sizeof(*out));
			if (attempt.quality <= FIT_QUALITY)
				break;
			attempt.quality = VIPS_MAX(attempt.quality - FIT_STEP, FIT_QUALITY);
		}
		if (vips_image_get_width(*image) * vips_image_get_height(*image) <= FIT_PIXELS) {
			vips_error("jpegsave", "no picture fits the bytes");
			return -1;
		}
		VipsImage *smaller = NULL;
		int failed = vips_resize(*image, &smaller, FIT_SCALE, NULL);
		if (ms_replace(image, failed, smaller))
			return -1;
	}
}

int ms_render(const void *buf, size_t len, VipsImage *decoded, const ms_recipe *recipe, ms_output *out)
{
	VipsImage *picture;
	int left = recipe->left, top = recipe->top;
	if (ms_draw(buf, len, decoded, recipe, recipe->focus, &left, &top, &picture))
		return -1;
	int failed = recipe->max_bytes ? ms_fit(&picture, recipe, out) : ms_save(picture, recipe, out);
	g_object_unref(picture);
	return failed;
}

// ms_frame makes the picture of one frame.
static int ms_frame(VipsImage *frames, int index, const ms_recipe *recipe, int focus, int *left, int *top, VipsImage **out)
{
	int height = vips_image_get_page_height(frames);
	VipsImage *frame, *drawn;
	if (vips_extract_area(frames, &frame, 0, index * height, vips_image_get_width(frames), height, NULL))
		return -1;
	int failed = ms_draw(NULL, 0, frame, recipe, focus, left, top, &drawn);
	if (!failed) {
		*out = vips_image_copy_memory(drawn);
		failed = !*out;
		g_object_unref(drawn);
	}
	g_object_unref(frame);
	return failed ? -1 : 0;
}

// ms_join writes pictures as the frames of a WebP animation, with the times of the original.
static int ms_join(VipsImage *original, VipsImage **pictures, int count, const ms_recipe *recipe, ms_output *out)
{
	VipsImage *joined, *bare;
	if (vips_arrayjoin(pictures, &joined, count, "across", 1, NULL))
		return -1;
	int failed = ms_bare(joined, &bare);
	g_object_unref(joined);
	if (failed)
		return -1;
	out->format = MS_WEBP;
	out->width = vips_image_get_width(bare);
	out->height = vips_image_get_height(bare) / count;
	int *delays, known, loop = 0;
	vips_image_set_int(bare, VIPS_META_PAGE_HEIGHT, out->height);
	if (vips_image_get_typeof(original, "delay") && !vips_image_get_array_int(original, "delay", &delays, &known) && known == count)
		vips_image_set_array_int(bare, "delay", delays, count);
	if (vips_image_get_typeof(original, "loop") && !vips_image_get_int(original, "loop", &loop))
		vips_image_set_int(bare, "loop", loop);
	failed = vips_webpsave_buffer(bare, &out->data, &out->length,
		"Q", recipe->quality,
		"effort", WEBP_EFFORT,
		"page_height", out->height,
		NULL);
	g_object_unref(bare);
	return failed ? -1 : 0;
}

// ms_animate makes the picture of each frame by itself, so that no pixel of one is in another, and all at the same
// place of the image.
int ms_animate(VipsImage *frames, const ms_recipe *recipe, ms_output *out)
{
	int count = vips_image_get_height(frames) / vips_image_get_page_height(frames);
	VipsImage **pictures = g_new0(VipsImage *, count);
	int left = recipe->left, top = recipe->top, failed = 0, made = 0;
	for (; !failed && made < count; made++)
		failed = ms_frame(frames, made, recipe, made ? MS_AT : recipe->focus, &left, &top, &pictures[made]);
	if (!failed)
		failed = ms_join(frames, pictures, count, recipe, out);
	for (int i = 0; i < count; i++)
		if (pictures[i])
			g_object_unref(pictures[i]);
	g_free(pictures);
	return failed ? -1 : 0;
}

// ms_pixels decodes a thumbnail to RGBA of at most side x side.
int ms_pixels(const void *buf, size_t len, int side, ms_output *out)
{
	VipsImage *image;
	if (vips_thumbnail_buffer((void *) buf, len, &image, side,
			"height", side,
			"size", VIPS_SIZE_DOWN,
			"option_string", STRICT,
			NULL))
		return -1;
	if (!vips_image_hasalpha(image)) {
		VipsImage *opaque;
		int failed = vips_addalpha(image, &opaque, NULL);
		g_object_unref(image);
		if (failed)
			return -1;
		image = opaque;
	}
	out->width = vips_image_get_width(image);
	out->height = vips_image_get_height(image);
	out->data = vips_image_write_to_memory(image, &out->length);
	g_object_unref(image);
	return out->data ? 0 : -1;
}
