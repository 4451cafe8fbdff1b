package settings

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mediastack.dev/runtime/fault"
)

func p[T any](v T) *T { return &v }

func TestDefaults_OfEachSetting(t *testing.T) {
	t.Parallel()
	if d := Defaults(); d.UseWebP || d.WebPOutputQuality != 80 || d.ThumbnailWidth != 320 || d.ThumbnailHeight != 320 {
		t.Errorf("defaults are %+v", d)
	}
}

func TestLayers_ResolveToPinElseTenantElseDefault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layers Layers
		want   func(*Effective) // on the defaults
		source map[string]Source
	}{
		"defaults when nothing is set": {Layers{}, func(*Effective) {}, map[string]Source{}},
		"a tenant's value overrides the default": {Layers{Tenant: Layer{UseWebP: p(true), ThumbnailWidth: p(64)}},
			func(e *Effective) { e.UseWebP, e.ThumbnailWidth = true, 64 },
			map[string]Source{"useWebP": FromTenant, "thumbnailWidth": FromTenant}},
		"a pin overrides both, also with a zero value": {Layers{Pinned: Layer{UseWebP: p(false), WebPOutputQuality: p(0)}, PinnedBy: "a/b",
			Tenant: Layer{UseWebP: p(true), WebPOutputQuality: p(90), ThumbnailHeight: p(10)}},
			func(e *Effective) { e.UseWebP, e.WebPOutputQuality, e.ThumbnailHeight = false, 0, 10 },
			map[string]Source{"useWebP": FromPin, "webpOutputQuality": FromPin, "thumbnailHeight": FromTenant}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Defaults()
			c.want(&want)
			if diff := cmp.Diff(want, c.layers.Effective()); diff != "" {
				t.Error(diff)
			}
			for _, f := range Fields() {
				if c.source[f.Name] == "" {
					c.source[f.Name] = FromDefault
				}
			}
			if diff := cmp.Diff(c.source, c.layers.Sources()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLayerValidate_RejectsValuesOutOfBounds(t *testing.T) {
	t.Parallel()
	for _, bad := range []Layer{{WebPOutputQuality: p(-1)}, {WebPOutputQuality: p(101)}, {ThumbnailWidth: p(0)}, {ThumbnailHeight: p(4097)}} {
		if err := bad.Validate(); !fault.Is(err, fault.Invalid) || fault.From(err).Public == "" {
			t.Errorf("%v must be rejected with a public text, not %v", bad.Fields(), err)
		}
	}
	for _, good := range []Layer{{}, {WebPOutputQuality: p(0)}, {WebPOutputQuality: p(100)}, {ThumbnailWidth: p(1), ThumbnailHeight: p(4096)}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%v: %v", good.Fields(), err)
		}
	}
}

// A row of the table with a wrong accessor or a name unlike the JSON tag would read one
// setting and write another.
func TestFields_MatchLayerAndEffective(t *testing.T) {
	t.Parallel()
	if layer, effective := reflect.TypeFor[Layer]().NumField(), reflect.TypeFor[Effective]().NumField(); layer != len(fields)+2 || effective != len(fields) {
		t.Fatalf("%d rows describe %d fields of Layer, the ceilings and the pictures aside, and %d of Effective", len(fields), layer-2, effective)
	}
	for _, f := range Fields() {
		text := map[Kind]string{Boolean: "true", Integer: "77"}[f.Kind]
		var layer Layer
		if err := layer.Set(f.Name, json.RawMessage(text)); err != nil {
			t.Fatal(err)
		}
		if got := layer.Fields(); len(got) != 1 || got[0] != f.Name {
			t.Errorf("setting %s sets %v", f.Name, got)
		}
		if got, err := json.Marshal(layer); err != nil || string(got) != `{"`+f.Name+`":`+text+`}` {
			t.Errorf("%s is stored as %s, %v", f.Name, got, err)
		}
		effective, err := json.Marshal(layer.apply(Effective{}))
		if err != nil || !strings.Contains(string(effective), `"`+f.Name+`":`+text) {
			t.Errorf("%s is effective as %s, %v", f.Name, effective, err)
		}
		if left := layer.without(layer.apply(Effective{})); left != (Layer{}) {
			t.Errorf("%s equals the effective value and is kept", f.Name)
		}
		layers := Layers{Tenant: layer}
		if got := layers.FieldsFrom(FromTenant); len(got) != 1 || got[0] != f.Name || layers.Sources()[f.Name] != FromTenant {
			t.Errorf("%s comes from %v", f.Name, layers.Sources())
		}
		if f.Descriptions.Argument == "" || f.Descriptions.Result == "" {
			t.Errorf("%s has no description", f.Name)
		}
	}
}

func TestLayerSet_RejectsUnknownNamesAndOtherTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"quality", "1", `unknown setting "quality"`},
		{"useWebP", "1", "useWebP must be true or false"},
		{"useWebP", "null", "useWebP must be true or false"},
		{"useWebP", " null", "useWebP must be true or false"},
		{"thumbnailWidth", "true", "thumbnailWidth must be an integer"},
		{"thumbnailWidth", "1.5", "thumbnailWidth must be an integer"},
		{"thumbnailWidth", "1e99", "thumbnailWidth must be an integer"},
		{"thumbnailWidth", "null", "thumbnailWidth must be an integer"},
	} {
		var layer Layer
		if err := layer.Set(c.name, json.RawMessage(c.text)); !fault.Is(err, fault.Invalid) || fault.From(err).Public != c.want || layer != (Layer{}) {
			t.Errorf("%s %s: %v, %v", c.name, c.text, err, layer.Fields())
		}
	}
	var layer Layer
	if err := layer.Set("webpOutputQuality", json.RawMessage("80.0")); err != nil || *layer.WebPOutputQuality != 80 {
		t.Errorf("80.0: %v", err)
	}
}
