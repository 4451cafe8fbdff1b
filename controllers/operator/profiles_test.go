package operator

import "testing"

func TestProfiles_AreOffByDefault(t *testing.T) {
	t.Parallel()
	if off, on := profiles(Config{}), profiles(Config{Pprof: true}); len(off) != 0 || on["/debug/pprof/"] == nil {
		t.Errorf("off: %v, on: %v", off, on)
	}
}
