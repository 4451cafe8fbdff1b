package weburl_test

import (
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/weburl"
)

func TestIsHost_TakesNamesAndAddresses(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	long := strings.Join(slices.Repeat([]string{label}, 4), ".")
	for host, want := range map[string]bool{
		"a.example": true, "A-1_b.example.": true, "10.0.0.1": true, "::1": true, label: true, long[:253]: true,
		"": false, ".": false, "a..example": false, ".example": false, "fe80::1%eth0": false, label + "a": false, long: false, "a b": false, "ü.example": false, "a/b": false,
	} {
		if got := weburl.IsHost(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
