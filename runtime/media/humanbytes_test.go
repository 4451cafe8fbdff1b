package media_test

import (
	"testing"

	"mediastack.dev/runtime/media"
)

func TestHumanBytes_HasShortNumbers(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1 KiB", 1025: "1 KiB", 1536: "1.5 KiB", 10 << 10: "10 KiB", 10189: "10 KiB", 1023 << 10: "1023 KiB", 1<<20 - 1: "1 MiB", 1 << 20: "1 MiB",
		5 << 30: "5 GiB", 10 << 40: "10 TiB", 1<<63 - 1: "8 EiB",
	} {
		if got := media.HumanBytes(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}
