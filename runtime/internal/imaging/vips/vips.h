#ifndef MEDIASTACK_VIPS_H
#define MEDIASTACK_VIPS_H

#include <vips/vips.h>

// What a file is, from its header alone.
typedef struct {
	int loader; // index in the list of allowed loaders, -1 for none
	int width;
	int height;
	int frames;
} ms_header;

typedef struct {
	void *data; // to be freed with g_free
	size_t length;
	int width;
	int height;
} ms_output;

int ms_start(void);
int ms_read_header(const void *buf, size_t len, ms_header *out);
int ms_decode(const void *buf, size_t len, VipsImage **out);
int ms_thumbnail_buffer(const void *buf, size_t len, int width, int height, ms_output *out);
int ms_thumbnail_image(VipsImage *in, int width, int height, ms_output *out);
int ms_convert(const void *buf, size_t len, VipsImage *decoded, int quality, int lossless, ms_output *out);

#endif
