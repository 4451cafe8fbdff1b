package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table is a table of the page: a row of pictures for each photo.
type table struct {
	// name is that of the marker on the page.
	name    string
	columns []string
	rows    []row
}

type row struct {
	title string
	cells []picture
}

const webp = "webp"

// tables are those of the page.
func tables() []table {
	of := func(photo, title string, variants ...string) row {
		r := row{title: title}
		for _, variant := range variants {
			r.cells = append(r.cells, picture{photo, variant, webp})
		}
		return r
	}
	in := func(photo, title, variant string, formats ...string) row {
		r := row{title: title}
		for _, format := range formats {
			r.cells = append(r.cells, picture{photo, variant, format})
		}
		return r
	}
	const coast, garden, badge = "coast.jpg", "garden.jpg", "badge.png"
	focuses := []string{"`focus: centre`", "`focus: attention`", "`focus: entropy`", "`focus: point`"}
	formats := []string{"avif", "webp", "jpeg", "png"}
	return []table{
		{name: "fit", columns: []string{"`fit: inside`", "`fit: cover`", "`fit: pad`"}, rows: []row{
			of(coast, "`coast.jpg`, 1600 x 800", "fit-inside", "fit-cover", "fit-pad"),
			of(garden, "`garden.jpg`, 1000 x 1500", "fit-inside", "fit-cover", "fit-pad"),
			of(badge, "`badge.png`, 300 x 300", "fit-inside", "fit-cover", "fit-pad"),
		}},
		{name: "small", columns: []string{"`large`: `fit: cover`, 640 x 480"}, rows: []row{of(badge, "`badge.png`, 300 x 300", "large")}},
		{name: "focus", columns: focuses, rows: []row{
			of(coast, "`coast.jpg`", "tall-centre", "tall-attention", "tall-entropy", "tall-point"),
			of(garden, "`garden.jpg`", "wide-centre", "wide-attention", "wide-entropy", "wide-point"),
		}},
		{name: "background", columns: []string{"`on-white`, WebP", "`on-blue`, WebP", "`flat`, JPEG"}, rows: []row{{title: "`badge.png`", cells: []picture{
			{badge, "on-white", webp}, {badge, "on-blue", webp}, {badge, "flat", "jpeg"},
		}}}},
		{name: "sharpen", columns: []string{"`plain`", "`sharpened`"}, rows: []row{of(coast, "`coast.jpg`", "plain", "sharpened")}},
		{name: "quality", columns: []string{"`quality: 20`", "`quality: 50`", "`quality: 90`"}, rows: []row{of(coast, "`coast.jpg`", "quality-20", "quality-50", "quality-90")}},
		{name: "formats", columns: []string{"`photo.avif`", "`photo.webp`", "`photo.jpeg`", "`photo.png`"}, rows: []row{
			in(coast, "`coast.jpg`", "photo", formats...),
			in(garden, "`garden.jpg`", "photo", formats...),
			in(badge, "`badge.png`", "photo", formats...),
		}},
		{name: "densities", columns: []string{"`photo.avif`", "`photo@2x.avif`", "`photo@3x.avif`"}, rows: []row{{title: "`coast.jpg`", cells: []picture{
			{coast, "photo", "avif"}, {coast, "photo@2x", "avif"}, {coast, "photo@3x", "avif"},
		}}}},
	}
}

// shown returns every picture of the tables once.
func shown() []picture {
	var all []picture
	for _, t := range tables() {
		for _, r := range t.rows {
			for _, p := range r.cells {
				if !slices.Contains(all, p) {
					all = append(all, p)
				}
			}
		}
	}
	return all
}

// markdown returns the table. A picture that is no AVIF, which not every reader shows, is shown; the others are links.
func (t table) markdown(files map[string]file) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| | %s |\n|---|%s\n", strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, r := range t.rows {
		text.WriteString("| " + r.title)
		for _, p := range r.cells {
			one := files[p.file()]
			link := "![" + p.variant + "](../pictures/" + p.file() + ")"
			if p.format == "avif" {
				link = "[AVIF](../pictures/" + p.file() + ")"
			}
			fmt.Fprintf(&text, " | %s<br>%d x %d, %s bytes", link, one.width, one.height, grouped(len(one.data)))
		}
		text.WriteString(" |\n")
	}
	return text.String()
}

// grouped writes a number with a comma between thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// parts are the generated parts of the page by the name of their markers.
func parts(files map[string]file) map[string]string {
	all := map[string]string{"presets": "```yaml\n" + string(settingsManifest) + "```\n"}
	for _, t := range tables() {
		all[t.name] = t.markdown(files)
	}
	return all
}

// fill replaces the generated parts of the page: what stands between <!-- name, by make preset-pictures --> and <!-- end -->.
func fill(text string, files map[string]file) (string, error) {
	for name, part := range parts(files) {
		before, rest, found := strings.Cut(text, begin(name))
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			return "", fmt.Errorf("there is no %s with its %s", begin(name), end)
		}
		text = before + begin(name) + "\n" + part + end + after
	}
	return text, nil
}

const end = "<!-- end -->"

func begin(name string) string { return "<!-- " + name + ", by make preset-pictures -->" }
