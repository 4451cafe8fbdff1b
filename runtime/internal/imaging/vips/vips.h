#ifndef MEDIASTACK_VIPS_H
#define MEDIASTACK_VIPS_H

#include <vips/vips.h>

// What a file is, from its header alone.
typedef struct {
	int loader; // index in the list of allowed loaders, -1 for none
	int width; // upright
	int height;
	int frames;
	int alpha;
	int cmyk;
	int embedded_width; // of the thumbnail in a HEIF file; 0 = none
	int embedded_height;
} ms_header;

// What a picture is cut out at.
enum { MS_AT, MS_ATTENTION, MS_ENTROPY };

// How a picture is made.
typedef struct {
	int shrink; // by which a JPEG that is not decoded is shrunk while it is loaded; 0 or 1 = libvips decides
	int box_width; // 0: the original size, no other step changes it
	int box_height;
	int exact; // the shrunk image has exactly the size below
	int shrunk_width;
	int shrunk_height;
	int width; // of the picture: less than shrunk is cut, more is padded
	int height;
	int focus;
	int left; // of MS_AT
	int top;
	double background[3];
	int sharpen;
	int format;
	int quality;
	int lossless; // WebP with the least memory
	size_t max_bytes; // of a JPEG: its quality falls, and then its size, until it fits; 0 = no bound
} ms_recipe;

typedef struct {
	void *data; // to be freed with g_free
	size_t length;
	int width;
	int height;
	int format;
} ms_output;

int ms_start(void);
const char *ms_format(int format);
int ms_read_header(const void *buf, size_t len, ms_header *out);
int ms_decode(const void *buf, size_t len, int shrink, int frames, VipsImage **out);
int ms_render(const void *buf, size_t len, VipsImage *decoded, const ms_recipe *recipe, ms_output *out);
int ms_animate(VipsImage *frames, const ms_recipe *recipe, ms_output *out);
int ms_pixels(const void *buf, size_t len, int side, ms_output *out);

#endif
