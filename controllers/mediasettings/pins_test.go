package mediasettings

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/settings"
)

var must = check.NoError

// schema is a JSON Schema, as far as this test reads one.
type schema struct {
	Type       string            `json:"type"`
	Minimum    int               `json:"minimum"`
	Maximum    int               `json:"maximum"`
	Properties map[string]schema `json:"properties"`
}

// The fields of the resource are converted by their JSON names: one that the table of
// package settings lacks would be accepted and pin nothing.
func TestSchema_HasTheFieldsAndBoundsOfTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../config/crd/bases/mediastack.dev_mediasettings.yaml")
	must(t, err)
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	must(t, yaml.Unmarshal(text, &definition))
	root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec, effective := root.Properties["spec"].Properties, map[string]string{}
	delete(spec, "accountRef")
	for name, property := range root.Properties["status"].Properties["effective"].Properties {
		effective[name] = property.Type
	}
	want, kinds := map[string]schema{}, map[string]string{}
	for _, f := range settings.Fields() {
		want[f.Name] = schema{Type: string(f.Kind), Minimum: f.Min, Maximum: f.Max}
		kinds[f.Name] = string(f.Kind)
	}
	want["maxSignatureSeconds"] = schema{Type: "integer", Minimum: settings.MinSignatureSeconds, Maximum: settings.MaxSignatureSeconds}
	want["maxSignatureBytes"] = schema{Type: "integer", Minimum: 1}
	want["presets"], want["originals"], want["derivatives"] = schema{Type: "array"}, schema{Type: "string"}, schema{Type: "string"}
	kinds["originals"], kinds["derivatives"] = "string", "string"
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec: %s", diff)
	}
	if diff := cmp.Diff(kinds, effective); diff != "" {
		t.Errorf("status.effective: %s", diff)
	}
}

func TestPins_ConvertEveryField(t *testing.T) {
	t.Parallel()
	seconds, bytes := int32(90), int64(1)<<40
	ceilings := pinsOf(v1alpha1.MediaSettingsSpec{MaxSignatureSeconds: &seconds, MaxSignatureBytes: &bytes})
	if !slices.Equal(ceilings.Ceilings.Names(), []string{"maxSignatureSeconds", "maxSignatureBytes"}) || *ceilings.MaxSignatureSeconds != 90 || *ceilings.MaxSignatureBytes != bytes {
		t.Errorf("the ceilings are %+v", ceilings.Ceilings)
	}
	for _, f := range settings.Fields() {
		text := map[settings.Kind]string{settings.Boolean: "true", settings.Integer: "77"}[f.Kind]
		var spec v1alpha1.MediaSettingsSpec
		must(t, json.Unmarshal([]byte(`{"accountRef": {"name": "demo"}, "`+f.Name+`": `+text+`}`), &spec))
		var want settings.Layer
		must(t, want.Set(f.Name, json.RawMessage(text)))
		pins := pinsOf(spec)
		if diff := cmp.Diff(want, pins); diff != "" {
			t.Errorf("%s: %s", f.Name, diff)
		}
		shown, err := json.Marshal(effectiveStatus(settings.Layers{Pinned: pins}))
		must(t, err)
		var values map[string]json.RawMessage
		if err := json.Unmarshal(shown, &values); err != nil || string(values[f.Name]) != text {
			t.Errorf("%s: the status has %s", f.Name, shown)
		}
	}
}
