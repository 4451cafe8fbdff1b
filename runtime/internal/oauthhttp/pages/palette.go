package pages

import (
	"fmt"
	"strings"
)

// Contrast that WCAG 2.2 AA asks for.
const (
	aaText = 4.5 // of text, 1.4.3
	aaPart = 3.0 // of what shows where a control is, and of the focus, 1.4.11
)

// palette is every colour of the pages under one scheme. The style sheet has no other.
type palette struct {
	page, surface, soft    colour // grounds: behind everything, of the card, of what is set apart
	text, muted            colour
	line                   colour // decoration only
	field                  colour // borders of inputs and buttons
	fill, hover, ink, edge colour // the main button: ground, ground under the pointer, text, border
	accent                 colour // links, focus, what is chosen

	problem, problemSoft colour
	warning, warningSoft colour
	good, goodSoft       colour
}

func lightPalette(brand colour) palette {
	p := palette{
		page: rgb(0xf5f6f8), surface: white, soft: rgb(0xf1f3f6),
		text: rgb(0x16191e), muted: rgb(0x535c69), line: rgb(0xe2e6eb), field: rgb(0x7b8593),
		problem: rgb(0xa3161d), problemSoft: rgb(0xfdefef),
		warning: rgb(0x7a4300), warningSoft: rgb(0xfff4de),
		good: rgb(0x12603a), goodSoft: rgb(0xe8f6ee),
	}
	return p.branded(brand, black)
}

func darkPalette(brand colour) palette {
	p := palette{
		page: rgb(0x0e1013), surface: rgb(0x17191e), soft: rgb(0x22262d),
		text: rgb(0xeef1f5), muted: rgb(0xa8b1be), line: rgb(0x2c3139), field: rgb(0x7c8694),
		problem: rgb(0xffa3a1), problemSoft: rgb(0x391a1c),
		warning: rgb(0xffcf87), warningSoft: rgb(0x33260f),
		good: rgb(0x8fe0b0), goodSoft: rgb(0x132d1f),
	}
	return p.branded(brand, white)
}

func rgb(hex uint32) colour { return colour{uint8(hex >> 16), uint8(hex >> 8), uint8(hex)} } //nolint:gosec // the bytes of a constant

// branded adds the colours that come from the brand's. The button keeps that colour;
// where it would vanish its border, like all links, is moved towards the far end.
func (p palette) branded(brand, far colour) palette {
	p.fill, p.ink = brand, ink(brand)
	// Away from the text, so that this is read even better; black and white have nowhere to go.
	away := white
	if p.ink == white {
		away = black
	}
	if p.hover = brand.mix(away, 0.14); p.hover == brand {
		p.hover = brand.mix(p.ink, 0.14)
	}
	p.edge = brand.readable(far, aaPart, p.surface, p.page)
	p.accent = brand.readable(far, aaText, p.surface, p.page, p.soft)
	return p
}

// css returns the colours their names in the style sheet.
func (p palette) css() string {
	var text strings.Builder
	for _, v := range []struct {
		name  string
		value colour
	}{
		{"page", p.page}, {"surface", p.surface}, {"soft", p.soft},
		{"text", p.text}, {"muted", p.muted}, {"line", p.line}, {"field", p.field},
		{"fill", p.fill}, {"hover", p.hover}, {"ink", p.ink}, {"edge", p.edge}, {"accent", p.accent},
		{"problem", p.problem}, {"problem-soft", p.problemSoft},
		{"warning", p.warning}, {"warning-soft", p.warningSoft},
		{"good", p.good}, {"good-soft", p.goodSoft},
	} {
		fmt.Fprintf(&text, "--%s:%s;", v.name, v.value)
	}
	return text.String()
}

// stylesheet puts both schemes before the rules.
func stylesheet(light, dark palette, rules string) string {
	return ":root{color-scheme:light dark;" + light.css() + "}\n@media (prefers-color-scheme:dark){:root{" + dark.css() + "}}\n" + rules
}

// mark is what stands for the service when it has no logo: a picture in a frame.
func mark(light, dark palette) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><style>.a{fill:` + light.fill.String() + `;stroke:` + light.edge.String() + `}.b{fill:` + light.ink.String() + `}` +
		`@media (prefers-color-scheme:dark){.a{fill:` + dark.fill.String() + `;stroke:` + dark.edge.String() + `}.b{fill:` + dark.ink.String() + `}}</style>` +
		`<rect class="a" x=".5" y=".5" width="31" height="31" rx="8"/><circle class="b" cx="11" cy="11" r="2.5"/><path class="b" d="M6 24l6.5-8 4 4.5L21 14l5 10z"/></svg>`
}
