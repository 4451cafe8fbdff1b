package settings

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mediastack.dev/runtime/fault"
)

func p[T any](v T) *T { return &v }

func TestEffectiveIsPinElseTenantElseDefaultFieldByField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layers Layers
		want   Effective
		source map[string]Source
	}{
		"nothing set gives the defaults": {Layers{}, Effective{false, 80, 320, 320},
			map[string]Source{"useWebP": FromDefault, "webpOutputQuality": FromDefault, "thumbnailWidth": FromDefault, "thumbnailHeight": FromDefault}},
		"a tenant's choice beats the default": {Layers{Tenant: Layer{UseWebP: p(true), ThumbnailWidth: p(64)}}, Effective{true, 80, 64, 320},
			map[string]Source{"useWebP": FromTenant, "webpOutputQuality": FromDefault, "thumbnailWidth": FromTenant, "thumbnailHeight": FromDefault}},
		"a pin beats both, also with a zero value": {Layers{Pinned: Layer{UseWebP: p(false), WebPOutputQuality: p(0)}, PinnedBy: "a/b",
			Tenant: Layer{UseWebP: p(true), WebPOutputQuality: p(90), ThumbnailHeight: p(10)}}, Effective{false, 0, 320, 10},
			map[string]Source{"useWebP": FromPin, "webpOutputQuality": FromPin, "thumbnailWidth": FromDefault, "thumbnailHeight": FromTenant}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.layers.Effective()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.source, c.layers.Sources()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidateNamesTheFieldAndItsBounds(t *testing.T) {
	t.Parallel()
	for _, bad := range []Layer{{WebPOutputQuality: p(-1)}, {WebPOutputQuality: p(101)}, {ThumbnailWidth: p(0)}, {ThumbnailHeight: p(4097)}} {
		if err := bad.Validate(); !fault.Is(err, fault.Invalid) || fault.Of(err).Public == "" {
			t.Errorf("%v must be refused with a sentence, not %v", bad.Fields(), err)
		}
	}
	for _, good := range []Layer{{}, {WebPOutputQuality: p(0)}, {WebPOutputQuality: p(100)}, {ThumbnailWidth: p(1), ThumbnailHeight: p(4096)}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%v: %v", good.Fields(), err)
		}
	}
}
