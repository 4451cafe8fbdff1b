/*
 * The data of ICU with nothing in it, in the form that ICU itself has for builds without data: a header of a
 * table of contents ("ToCP"), and no entry. emptyICUData (icudata.go) compiles it with the name that the
 * library of Debian exports.
 */
#include <stdint.h>

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "Debian's releases for big-endian machines have no image."
#endif

__attribute__((visibility("default"), aligned(16))) const struct {
	uint16_t header_size;
	uint8_t magic[2];
	struct {
		uint16_t size, reserved;
		uint8_t big_endian, charset_family, size_of_char, reserved_byte;
		uint8_t format[4], format_version[4], data_version[4];
	} info;
	uint8_t padding[8];
	uint32_t entries, reserved;
	uint32_t first_entry[4];
} ENTRY_POINT = {32, {0xda, 0x27}, {20, 0, 0, 0, 2, 0, {'T', 'o', 'C', 'P'}, {1, 0, 0, 0}, {0, 0, 0, 0}}, {0}, 0, 0, {0}};
