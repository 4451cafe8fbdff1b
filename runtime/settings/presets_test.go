package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/fault"
)

func TestPresetValidate_NamesThePresetAndTheMember(t *testing.T) {
	t.Parallel()
	for want, bad := range map[string]Preset{
		"the name of a preset must be a DNS label": {Name: "a_b", Width: 1},
		"not \"\"":                                   {Width: 1},
		"not \"-a\"":                                 {Name: "-a", Width: 1},
		"not \"a-\"":                                 {Name: "a-", Width: 1},
		"not \"A\"":                                  {Name: "A", Width: 1},
		"not \"a.b\"":                                {Name: "a.b", Width: 1},
		"not \"a@2x\"":                               {Name: "a@2x", Width: 1},
		"not \"a\\n\"":                               {Name: "a\n", Width: 1},
		"up to 63 characters":                        {Name: strings.Repeat("a", 64), Width: 1},
		"thumbnail cannot be the name":               {Name: "thumbnail", Width: 1},
		"original cannot be the name":                {Name: "original", Width: 1},
		"webp cannot be the name":                    {Name: "webp", Width: 1},
		"preset a: width or height is":               {Name: "a"},
		"preset a: width must be from 1":             {Name: "a", Width: 4097},
		"preset b: width must be from 1":             {Name: "b", Width: -1, Height: 1},
		"preset a: height must be from 1":            {Name: "a", Height: 4097},
		"preset a: fit must be inside, cover or pad": {Name: "a", Width: 1, Fit: "fill"},
		"preset a: fit cover needs width and height": {Name: "a", Width: 1, Fit: Cover},
		"preset a: fit pad needs width and height":   {Name: "a", Height: 1, Fit: Pad},
		"preset a: focus must be centre, attention, entropy or point":          {Name: "a", Width: 1, Height: 1, Fit: Cover, Focus: "face"},
		"preset a: focus needs fit cover":                                      {Name: "a", Width: 1, Focus: Centre},
		"preset a: format must be auto, webp, avif, jpeg or png":               {Name: "a", Width: 1, Format: "gif"},
		"preset a: quality must be from 1 to 100":                              {Name: "a", Width: 1, Quality: 101},
		"preset b: quality must be from 1 to 100":                              {Name: "b", Width: 1, Quality: -1},
		"preset a: format png has no quality":                                  {Name: "a", Width: 1, Quality: 1, Format: FormatPNG},
		"preset a: background must be a color":                                 {Name: "a", Width: 1, Background: "#fff"},
		"preset b: background must be a color":                                 {Name: "b", Width: 1, Background: "#ffffff\n"},
		"preset a: densities must be from 1 to 3":                              {Name: "a", Width: 1, Densities: []int{4}},
		"preset b: densities must be from 1 to 3":                              {Name: "b", Width: 1, Densities: []int{0}},
		"preset a: there are two densities 2":                                  {Name: "a", Width: 1, Densities: []int{2, 2}},
		"preset a: density 3 makes a side of 4098 pixels; the maximum is 4096": {Name: "a", Height: 1366, Densities: []int{3}},
		"preset a: animated needs format webp or auto":                         {Name: "a", Width: 1, Animated: true, Format: FormatJPEG},
	} {
		if err := bad.Validate(); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.From(err).Public, want) {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
	for _, good := range []Preset{
		{Name: "a", Width: 1}, {Name: strings.Repeat("a", 63), Height: 4096}, {Name: "0-a", Width: 4096, Height: 4096, Fit: Pad, Densities: []int{1}},
		{Name: "a", Width: 2, Height: 2, Fit: Cover, Focus: Point, Format: FormatAVIF, Quality: 100, Densities: []int{3, 1, 2}, Background: "#00FFaa", Sharpen: true},
		{Name: "a", Width: 1365, Densities: []int{3}, Animated: true},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
		if err := good.WithDefaults().Validate(); err != nil {
			t.Errorf("with its defaults %+v: %v", good, err)
		}
	}
}

func TestPreset_EqualIfItTakesTheSameEffect(t *testing.T) {
	t.Parallel()
	same := Preset{Name: "a", Width: 10, Height: 20, Fit: Inside, Format: FormatAuto, Densities: []int{2, 1}, Background: "#FFFFFF"}
	if other := (Preset{Name: "a", Width: 10, Height: 20, Densities: []int{2}}); !same.Equal(other) || !other.Equal(same) {
		t.Error("defaults make a difference")
	}
	base := Preset{Name: "a", Width: 10, Height: 20, Fit: Cover}
	for name, change := range map[string]func(*Preset){
		"name": func(p *Preset) { p.Name = "b" }, "width": func(p *Preset) { p.Width++ }, "height": func(p *Preset) { p.Height++ }, "fit": func(p *Preset) { p.Fit = Pad },
		"focus": func(p *Preset) { p.Focus = Point }, "format": func(p *Preset) { p.Format = FormatPNG }, "quality": func(p *Preset) { p.Quality = 3 },
		"densities": func(p *Preset) { p.Densities = []int{3} }, "background": func(p *Preset) { p.Background = "#000000" }, "sharpen": func(p *Preset) { p.Sharpen = true },
		"animated": func(p *Preset) { p.Animated = true },
		"eager":    func(p *Preset) { p.Eager = true },
	} {
		other := base
		if change(&other); base.Equal(other) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

func presetsOf(names ...string) *[]Preset {
	presets := []Preset{}
	for _, name := range names {
		presets = append(presets, Preset{Name: name, Width: 100})
	}
	return &presets
}

func numbered(prefix string, n int) *[]Preset {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return presetsOf(names...)
}

func namesOf(layers Layers) string {
	var names []string
	for _, preset := range layers.Presets() {
		names = append(names, preset.Name+" "+string(preset.Source))
	}
	return strings.Join(names, ", ")
}

func TestLayers_PinnedPresetsComeFirstAndHideTheTenants(t *testing.T) {
	t.Parallel()
	pinned := []Preset{{Name: "b", Width: 50}, {Name: "z", Width: 60}}
	layers := Layers{Pinned: Layer{Pictures: Pictures{Presets: &pinned}}, Tenant: Layer{Pictures: Pictures{Presets: presetsOf("c", "b", "a")}}}
	if got := namesOf(layers); got != "b pinned, z pinned, c tenant, a tenant" {
		t.Errorf("in effect: %s", got)
	}
	for name, width := range map[string]int{"b": 50, "z": 60, "c": 100, "a": 100} {
		if preset, ok := layers.Preset(name); !ok || preset.Width != width || preset.Format != FormatAuto || !slices.Equal(preset.Densities, []int{1}) {
			t.Errorf("%s: %+v, %t", name, preset, ok)
		}
	}
	if _, ok := layers.Preset("missing"); ok {
		t.Error("a preset that nobody set is in effect")
	}
	full := Layers{Pinned: Layer{Pictures: Pictures{Presets: numbered("p", 30)}}, Tenant: Layer{Pictures: Pictures{Presets: numbered("t", 32)}}}
	all := full.Presets()
	if len(all) != MaxPresets || all[31].Name != "t1" {
		t.Errorf("%d in effect: %s", len(all), namesOf(full))
	}
	for _, p := range append(*full.Pinned.Presets, *full.Tenant.Presets...) {
		_, found := full.Preset(p.Name)
		if listed := slices.ContainsFunc(all, func(e EffectivePreset) bool { return e.Name == p.Name }); found != listed {
			t.Errorf("%s is listed (%t), and found (%t)", p.Name, listed, found)
		}
	}
}

func TestChangePictures_ReplacesTheTenantsListButNoPin(t *testing.T) {
	t.Parallel()
	pinned := []Preset{{Name: "site", Width: 50, Format: FormatAuto}}
	layers := Layers{Pinned: Layer{Pictures: Pictures{Presets: &pinned, Originals: OriginalsSigned}}, PinnedBy: "team-a/site", Tenant: Layer{Pictures: Pictures{Presets: presetsOf("a", "site")}}}
	document := make([]Preset, 0, 2)
	for _, preset := range layers.Presets() {
		document = append(document, preset.Preset)
	}
	for name, c := range map[string]struct {
		change            Pictures
		changed, rejected string
		stored            string // names
	}{
		"nothing":                             {Pictures{}, "", "", ""},
		"what is in effect":                   {Pictures{Presets: &document, Originals: OriginalsSigned}, "", "", ""},
		"another list":                        {Pictures{Presets: presetsOf("b")}, "presets", "", "b"},
		"a pinned preset as it is, and a new": {Pictures{Presets: &[]Preset{{Name: "site", Width: 50}, {Name: "b", Width: 1}}}, "presets", "", "b"},
		"another value for a pinned name":     {Pictures{Presets: presetsOf("b", "site")}, "presets", "presets.site", "b"},
		"none ends those that are hidden too": {Pictures{Presets: presetsOf()}, "presets", "", ""},
		"originals that are pinned otherwise": {Pictures{Originals: OriginalsPublic}, "", "originals", ""},
	} {
		stored, changed, rejected, err := layers.changePictures(c.change)
		var names []string
		for _, preset := range stored.presets() {
			names = append(names, preset.Name)
		}
		if err != nil || strings.Join(changed, ",") != c.changed || strings.Join(rejected, ",") != c.rejected || strings.Join(names, ",") != c.stored || (stored.Presets != nil) != (c.changed != "") {
			t.Errorf("%s: stored %v, changed %v, rejected %v, %v", name, names, changed, rejected, err)
		}
	}
	if _, _, _, err := layers.changePictures(Pictures{Presets: numbered("t", 32)}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "1 are pinned, and 32 are in the list") {
		t.Errorf("33 presets: %v", err)
	}
	if _, changed, _, err := layers.changePictures(Pictures{Presets: numbered("t", 31)}); err != nil || len(changed) != 1 {
		t.Errorf("32 presets: %v", err)
	}
}

func TestPictures_RejectTwoOfOneNameAndMoreThanTheMaximum(t *testing.T) {
	t.Parallel()
	for want, bad := range map[string]Pictures{
		"there are two presets a": {Presets: presetsOf("a", "b", "a")}, "there must be at most 32 presets": {Presets: numbered("a", 33)}, "originals must be public or signed": {Originals: "private"},
	} {
		if err := (Layer{Pictures: bad}).Validate(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (Layer{Pictures: Pictures{Presets: numbered("a", 32), Originals: OriginalsSigned}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestLayerSet_ReadsPresetsStrictly(t *testing.T) {
	t.Parallel()
	var layer Layer
	text := `[{"name":"a","width":10.0,"height":5e1,"fit":"cover","focus":"point","format":"webp","quality":3,"densities":[1,2],"background":"#000000","sharpen":true,"animated":false,"source":"pinned"},{"name":"b","width":1,"height":null,"eager":true}]`
	if err := layer.Set(PresetsField, json.RawMessage(text)); err != nil {
		t.Fatal(err)
	}
	want := []Preset{{Name: "a", Width: 10, Height: 50, Fit: Cover, Focus: Point, Format: FormatWebP, Quality: 3, Densities: []int{1, 2}, Background: "#000000", Sharpen: true}, {Name: "b", Width: 1, Eager: true}}
	if !slices.EqualFunc(*layer.Presets, want, Preset.Equal) {
		t.Errorf("%+v", *layer.Presets)
	}
	if err := layer.Set(OriginalsField, json.RawMessage(`"signed"`)); err != nil || layer.Originals != OriginalsSigned {
		t.Errorf("%s, %v", layer.Originals, err)
	}
	for text, want := range map[string]string{
		`null`: "presets must be an array", `{}`: "presets must be an array", `[1]`: "presets[0] must be an object", `[null]`: "presets[0] must be an object",
		`[{"name":"a"},{"widht":1}]`: `unknown member "presets[1].widht"`, `[{"Name":"a"}]`: "unknown member",
		`[{"name":1}]`: "presets[0].name must be a string", `[{"width":"1"}]`: "presets[0].width must be an integer", `[{"width":1.5}]`: "presets[0].width must be an integer",
		`[{"width":0}]`: "presets[0].width must be an integer of 1 or more", `[{"quality":0}]`: "presets[0].quality must be", `[{"densities":1}]`: "presets[0].densities must be an array",
		`[{"densities":["1"]}]`: "presets[0].densities must be an array of integers", `[{"densities":[1,2,3,1]}]`: "up to 3", `[{"sharpen":"yes"}]`: "presets[0].sharpen must be true or false",
	} {
		var layer Layer
		if err := layer.Set(PresetsField, json.RawMessage(text)); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.From(err).Public, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`null`, `1`, `[]`} {
		if err := new(Layer).Set(OriginalsField, json.RawMessage(text)); !fault.Is(err, fault.Invalid) {
			t.Errorf("originals %s: %v", text, err)
		}
	}
}

// What the database stores is read back as it was.
func TestPictures_AreStoredAsTheyAreDeclared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		layer Layer
		want  string
	}{
		{Layer{}, `{}`}, {Layer{Pictures: Pictures{Presets: presetsOf()}}, `{"presets":[]}`},
		{Layer{Pictures: Pictures{Presets: presetsOf("a"), Originals: OriginalsSigned}}, `{"presets":[{"name":"a","width":100}],"originals":"signed"}`},
	} {
		text, err := json.Marshal(c.layer)
		if err != nil || string(text) != c.want {
			t.Errorf("%s, %v, want %s", text, err, c.want)
		}
	}
}
