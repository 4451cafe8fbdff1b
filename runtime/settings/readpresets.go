package settings

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"mediastack.dev/runtime/fault"
)

// readPresets reads a JSON array of presets. An unknown member and a value of another type are Invalid, with the
// position in the array. The member source is ignored, so that a settings document can be written back. null for a member means
// that it is absent.
func readPresets(text json.RawMessage) ([]Preset, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(text, &elements); err != nil || elements == nil {
		return nil, fault.New(fault.Invalid, "presets must be an array of objects")
	}
	presets := make([]Preset, 0, min(len(elements), MaxPresets+1))
	for i, element := range elements {
		if len(presets) > MaxPresets { // Validate rejects them
			break
		}
		position := PresetsField + "[" + strconv.Itoa(i) + "]"
		var members map[string]json.RawMessage
		if err := json.Unmarshal(element, &members); err != nil || members == nil {
			return nil, fault.New(fault.Invalid, "%s must be an object", position)
		}
		var preset Preset
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if err := preset.set(position+"."+name, name, members[name]); err != nil {
				return nil, err
			}
		}
		presets = append(presets, preset)
	}
	return presets, nil
}

// set sets a member of the preset.
func (p *Preset) set(position, name string, value json.RawMessage) error {
	texts := map[string]*string{"name": &p.Name, "fit": (*string)(&p.Fit), "focus": (*string)(&p.Focus), "format": (*string)(&p.Format), "background": &p.Background}
	numbers := map[string]*int{"width": &p.Width, "height": &p.Height, "quality": &p.Quality}
	flags := map[string]*bool{"sharpen": &p.Sharpen, "animated": &p.Animated, "eager": &p.Eager}
	switch {
	case name == "source":
		return nil
	case texts[name] == nil && numbers[name] == nil && flags[name] == nil && name != "densities":
		return fault.New(fault.Invalid, "unknown member %.80q of a preset", position)
	case isNull(value):
		return nil
	case texts[name] != nil:
		if json.Unmarshal(value, texts[name]) != nil {
			return fault.New(fault.Invalid, "%s must be a string", position)
		}
	case flags[name] != nil:
		if json.Unmarshal(value, flags[name]) != nil {
			return fault.New(fault.Invalid, "%s must be true or false", position)
		}
	case numbers[name] != nil:
		number, ok := readInteger(value)
		if !ok || number < 1 { // 0 would mean that it is absent
			return fault.New(fault.Invalid, "%s must be an integer of 1 or more", position)
		}
		*numbers[name] = number
	default:
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) != nil || len(elements) > MaxDensity {
			return fault.New(fault.Invalid, "%s must be an array of up to %d integers", position, MaxDensity)
		}
		for _, element := range elements {
			density, ok := readInteger(element)
			if !ok {
				return fault.New(fault.Invalid, "%s must be an array of integers", position)
			}
			p.Densities = append(p.Densities, density)
		}
	}
	return nil
}

// readInteger returns the integer that a JSON number is. 80.0 is one, too: JavaScript, for one, has a single kind of
// number.
func readInteger(text json.RawMessage) (int, bool) {
	var number *float64
	if err := json.Unmarshal(bytes.TrimSpace(text), &number); err != nil || number == nil || *number != math.Trunc(*number) || math.Abs(*number) > math.MaxInt32 {
		return 0, false
	}
	return int(*number), true
}
