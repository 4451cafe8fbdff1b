package settings

import (
	"regexp"
	"slices"
	"strings"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
)

// Bounds of presets.
const (
	MaxPresets    = 32 // in effect for an account
	MaxPresetSide = 4096
	MaxDensity    = 3
	MaxPresetName = 63
	MinPreset     = 1
)

// Defaults of presets.
const defaultBackground = "#ffffff"

// ReservedPresetNames are the variants of every item, which no preset can be named after.
var ReservedPresetNames = []string{"original", "webp", "thumbnail"}

// Fits, Focuses and Formats are the values of a preset, the default first.
var (
	Fits    = []Fit{Inside, Cover, Pad}
	Focuses = []Focus{Centre, Attention, Entropy, Point}
	Formats = formats()
)

func formats() (names []Format) {
	for _, f := range imageformat.Encoded() {
		names = append(names, Format(f.Name()))
	}
	return names
}

// Originals says who may fetch the original of a public item.
type Originals string

// The values of Originals. A draft and a private item need a signed URL anyway.
const (
	OriginalsPublic Originals = "public" // every client, unless the item has a conversion
	OriginalsSigned Originals = "signed" // clients with a signed URL
)

// Derivatives says when the thumbnail of an image, and its conversion, are made.
type Derivatives string

// The values of Derivatives.
const (
	DerivativesAtUpload Derivatives = "AtUpload" // before the upload is answered
	DerivativesLater    Derivatives = "Later"    // afterwards; until then the file is the original
)

// Pictures are the settings of the pictures that an account's items are served as. They are not in the
// table of fields: no tool has them.
type Pictures struct {
	// Presets are those of this layer; nil = the layer sets none, which for a change means: as they are.
	Presets *[]Preset `json:"presets,omitempty"`
	// Originals is empty if the layer does not set it.
	Originals Originals `json:"originals,omitempty"`
	// Derivatives is empty if the layer does not set it.
	Derivatives Derivatives `json:"derivatives,omitempty"`
}

// The names of these settings.
const (
	PresetsField     = "presets"
	OriginalsField   = "originals"
	DerivativesField = "derivatives"
)

// Names returns the names of what is set.
func (p Pictures) Names() []string {
	var names []string
	if len(p.presets()) > 0 {
		names = append(names, PresetsField)
	}
	if p.Originals != "" {
		names = append(names, OriginalsField)
	}
	if p.Derivatives != "" {
		names = append(names, DerivativesField)
	}
	return names
}

func (p Pictures) presets() []Preset {
	if p.Presets == nil {
		return nil
	}
	return *p.Presets
}

// Validate checks the presets, each by itself and their names against each other.
func (p Pictures) Validate() error {
	if p.Originals != "" && p.Originals != OriginalsPublic && p.Originals != OriginalsSigned {
		return fault.New(fault.Invalid, "originals must be public or signed")
	}
	if p.Derivatives != "" && p.Derivatives != DerivativesAtUpload && p.Derivatives != DerivativesLater {
		return fault.New(fault.Invalid, "derivatives must be AtUpload or Later")
	}
	presets := p.presets()
	if len(presets) > MaxPresets {
		return fault.New(fault.Invalid, "there must be at most %d presets, not %d", MaxPresets, len(presets))
	}
	names := make(map[string]bool, len(presets))
	for _, preset := range presets {
		if err := preset.Validate(); err != nil {
			return err
		}
		if names[preset.Name] {
			return fault.New(fault.Invalid, "there are two presets %s", preset.Name)
		}
		names[preset.Name] = true
	}
	return nil
}

var (
	presetName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	colorText  = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)
)

// Validate checks the preset. The error names the preset and the member.
func (p Preset) Validate() error {
	invalid := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "preset "+p.Name+": "+format, args...)
	}
	switch {
	case !presetName.MatchString(p.Name):
		return fault.New(fault.Invalid, "the name of a preset must be a DNS label of up to %d characters: a-z, 0-9 and, not first or last, -; not %.80q", MaxPresetName, p.Name)
	case slices.Contains(ReservedPresetNames, p.Name):
		return fault.New(fault.Invalid, "%s cannot be the name of a preset: original, webp and thumbnail are reserved", p.Name)
	case p.Width < 0 || p.Width > MaxPresetSide:
		return invalid("width must be from %d to %d", MinPreset, MaxPresetSide)
	case p.Height < 0 || p.Height > MaxPresetSide:
		return invalid("height must be from %d to %d", MinPreset, MaxPresetSide)
	case p.Width == 0 && p.Height == 0:
		return invalid("width or height is required")
	case p.Fit != "" && !slices.Contains(Fits, p.Fit):
		return invalid("fit must be %s", oneOf(Fits))
	case (p.Fit == Cover || p.Fit == Pad) && (p.Width == 0 || p.Height == 0):
		return invalid("fit %s needs width and height", p.Fit)
	case p.Focus != "" && !slices.Contains(Focuses, p.Focus):
		return invalid("focus must be %s", oneOf(Focuses))
	case p.Focus != "" && p.Fit != Cover:
		return invalid("focus needs fit cover")
	case p.Format != "" && !slices.Contains(Formats, p.Format):
		return invalid("format must be %s", oneOf(Formats))
	case p.Quality < 0 || p.Quality > 100:
		return invalid("quality must be from 1 to 100")
	case p.Quality != 0 && p.Format != "" && p.Format.Spec().DefaultQuality() == 0:
		return invalid("format %s has no quality", p.Format)
	case p.Background != "" && !colorText.MatchString(p.Background):
		return invalid("background must be a color such as %s", defaultBackground)
	case p.Animated && p.Format != "" && p.Format != FormatAuto && !p.Format.Spec().Animated():
		return invalid("animated needs format webp or auto")
	}
	seen := map[int]bool{}
	for _, density := range p.Densities {
		switch {
		case density < 1 || density > MaxDensity:
			return invalid("densities must be from 1 to %d", MaxDensity)
		case seen[density]:
			return invalid("there are two densities %d", density)
		case max(p.Width, p.Height)*density > MaxPresetSide:
			return invalid("density %d makes a side of %d pixels; the maximum is %d", density, max(p.Width, p.Height)*density, MaxPresetSide)
		}
		seen[density] = true
	}
	return nil
}

func oneOf[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " or " + texts[len(texts)-1]
}

// WithDefaults returns the preset as it takes effect: with its defaults, its densities in order and with 1, and its
// background in lower case. Equal presets are those with an equal result. Only Cover has a focus.
func (p Preset) WithDefaults() Preset {
	if p.Fit == "" {
		p.Fit = Inside
	}
	if p.Focus == "" && p.Fit == Cover {
		p.Focus = Centre
	}
	if p.Format == "" {
		p.Format = FormatAuto
	}
	if p.Background = strings.ToLower(p.Background); p.Background == "" {
		p.Background = defaultBackground
	}
	p.Densities = slices.Clone(p.Densities)
	if !slices.Contains(p.Densities, 1) {
		p.Densities = append(p.Densities, 1)
	}
	slices.Sort(p.Densities)
	return p
}

// Equal reports whether both take the same effect.
func (p Preset) Equal(other Preset) bool {
	p, other = p.WithDefaults(), other.WithDefaults()
	sameDensities := slices.Equal(p.Densities, other.Densities)
	p.Densities, other.Densities = nil, nil
	return sameDensities && p.key() == other.key()
}

// key is the preset without its densities, for comparisons.
func (p Preset) key() (key struct {
	name, background       string
	fit                    Fit
	focus                  Focus
	format                 Format
	width, height, quality int
	sharpen, animated      bool
	eager                  bool
}) {
	key.name, key.background, key.fit, key.focus, key.format = p.Name, p.Background, p.Fit, p.Focus, p.Format
	key.width, key.height, key.quality = p.Width, p.Height, p.Quality
	key.sharpen, key.animated, key.eager = p.Sharpen, p.Animated, p.Eager
	return key
}

// EffectivePreset is a preset that is in effect, with its defaults.
type EffectivePreset struct {
	Preset
	// Source is FromPin or FromTenant.
	Source Source `json:"source"`
}

// Presets returns the presets in effect: those that are pinned, then the tenant's whose names are not pinned, in the
// order in which they were declared, up to MaxPresets.
func (l Layers) Presets() []EffectivePreset {
	pinned, own := l.Pinned.presets(), l.Tenant.presets()
	if len(pinned)+len(own) == 0 {
		return nil
	}
	effective := make([]EffectivePreset, 0, len(pinned)+len(own))
	for _, preset := range pinned {
		effective = append(effective, EffectivePreset{preset.WithDefaults(), FromPin})
	}
	for _, preset := range own {
		if !hasPreset(pinned, preset.Name) {
			effective = append(effective, EffectivePreset{preset.WithDefaults(), FromTenant})
		}
	}
	return effective[:min(MaxPresets, len(effective))]
}

// Preset returns the preset in effect that has this name.
func (l Layers) Preset(name string) (Preset, bool) {
	pinned := l.Pinned.presets()
	left := MaxPresets
	for _, preset := range pinned {
		if preset.Name == name {
			return preset.WithDefaults(), true
		}
		left--
	}
	for _, preset := range l.Tenant.presets() {
		if hasPreset(pinned, preset.Name) {
			continue
		}
		if left--; left < 0 {
			break
		}
		if preset.Name == name {
			return preset.WithDefaults(), true
		}
	}
	return Preset{}, false
}

// presetsFrom returns the presets in effect that come from source.
func (l Layers) presetsFrom(source Source) []Preset {
	var presets []Preset
	for _, preset := range l.Presets() {
		if preset.Source == source {
			presets = append(presets, preset.Preset)
		}
	}
	return presets
}

func hasPreset(presets []Preset, name string) bool {
	return slices.ContainsFunc(presets, func(p Preset) bool { return p.Name == name })
}

// Originals returns who may fetch the originals of public items, and where that comes from.
func (l Layers) Originals() (Originals, Source) {
	switch {
	case l.Pinned.Originals != "":
		return l.Pinned.Originals, FromPin
	case l.Tenant.Originals != "":
		return l.Tenant.Originals, FromTenant
	}
	return OriginalsPublic, FromDefault
}

// Derivatives returns when derivatives are made, and where that comes from.
func (l Layers) Derivatives() (Derivatives, Source) {
	switch {
	case l.Pinned.Derivatives != "":
		return l.Pinned.Derivatives, FromPin
	case l.Tenant.Derivatives != "":
		return l.Tenant.Derivatives, FromTenant
	}
	return DerivativesAtUpload, FromDefault
}

// PicturesFrom returns the names of the settings in Pictures of which anything in effect comes from source.
func (l Layers) PicturesFrom(source Source) []string {
	var names []string
	if len(l.presetsFrom(source)) > 0 {
		names = append(names, PresetsField)
	}
	if _, from := l.Originals(); from == source && source != FromDefault {
		names = append(names, OriginalsField)
	}
	if _, from := l.Derivatives(); from == source && source != FromDefault {
		names = append(names, DerivativesField)
	}
	return names
}

// changePictures returns what a tenant's change of the pictures stores, the names of the settings that
// change, and the names of what is pinned otherwise. A preset in the change that is pinned so, as a client reads
// it in the settings document, is left out.
func (l Layers) changePictures(change Pictures) (stored Pictures, changed, rejected []string, err error) {
	if change.Originals != "" {
		switch current, source := l.Originals(); {
		case change.Originals == current:
		case source == FromPin:
			rejected = append(rejected, OriginalsField)
		default:
			stored.Originals, changed = change.Originals, append(changed, OriginalsField)
		}
	}
	if change.Derivatives != "" {
		switch current, source := l.Derivatives(); {
		case change.Derivatives == current:
		case source == FromPin:
			rejected = append(rejected, DerivativesField)
		default:
			stored.Derivatives, changed = change.Derivatives, append(changed, DerivativesField)
		}
	}
	if change.Presets == nil {
		return stored, changed, rejected, nil
	}
	pinned := l.Pinned.presets()
	own := []Preset{}
	for _, preset := range *change.Presets {
		at := slices.IndexFunc(pinned, func(p Preset) bool { return p.Name == preset.Name })
		switch {
		case at < 0:
			own = append(own, preset)
		case !pinned[at].Equal(preset):
			rejected = append(rejected, PresetsField+"."+preset.Name)
		}
	}
	if most := MaxPresets - len(pinned); len(own) > most && len(rejected) == 0 {
		return stored, nil, nil, fault.New(fault.Invalid, "there must be at most %d presets: %d are pinned, and %d are in the list", MaxPresets, len(pinned), len(own))
	}
	cleared := len(*change.Presets) == 0 && len(l.Tenant.presets()) > 0 // also those that a pin hides
	if cleared || !slices.EqualFunc(own, l.presetsFrom(FromTenant), Preset.Equal) {
		stored.Presets, changed = &own, append([]string{PresetsField}, changed...)
	}
	return stored, changed, rejected, nil
}
