package capturefile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/imaging/capturefile"
)

// exiftool runs exiftool once for several commands, of which each has its arguments.
func exiftool(t *testing.T, commands ...[]string) string {
	t.Helper()
	var arguments strings.Builder
	for _, command := range commands {
		arguments.WriteString(strings.Join(command, "\n") + "\n-execute\n")
	}
	command := exec.CommandContext(t.Context(), "exiftool", "-charset", "utf8", "-@", "-")
	command.Stdin = strings.NewReader(arguments.String())
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("exiftool: %v: %s", err, stderr.String())
	}
	return string(out)
}

// what exiftool says of a file, by group and tag.
type said map[string]any

func (s said) text(names ...string) string {
	for _, name := range names {
		if value, ok := s[name]; ok && fmt.Sprint(value) != "" {
			return fmt.Sprint(value)
		}
	}
	return ""
}

func (s said) number(names ...string) (float64, bool) {
	for _, name := range names {
		if value, ok := s[name].(float64); ok {
			return value, true
		}
	}
	return 0, false
}

// at returns a time of exiftool, 2024:05:01 12:30:45+02:00, in the form of capture.
func at(text, offset string) string {
	if text == "" || strings.HasPrefix(text, "0000") {
		return ""
	}
	if len(text) > 19 { // it has an offset
		text, offset = text[:19], text[19:]
	}
	if offset == "+00:00" && strings.HasSuffix(text, "Z") {
		offset = "Z"
	}
	return strings.Replace(strings.Replace(text, ":", "-", 2), " ", "T", 1) + offset
}

// capture returns what exiftool says in the form of capture.
func (s said) capture() capture.Capture {
	firstOf := func(texts ...string) string {
		for _, text := range texts {
			if text != "" {
				return text
			}
		}
		return ""
	}
	c := capture.Capture{
		At: firstOf(at(s.text("ExifIFD:DateTimeOriginal"), s.text("ExifIFD:OffsetTimeOriginal")), at(s.text("ExifIFD:CreateDate"), s.text("ExifIFD:OffsetTimeDigitized")),
			at(s.text("XMP-exif:DateTimeOriginal"), ""), at(s.text("XMP-photoshop:DateCreated"), ""), at(s.text("XMP-xmp:CreateDate"), ""),
			at(s.text("Keys:CreationDate"), ""), at(s.text("ItemList:ContentCreateDate"), ""), at(s.text("QuickTime:CreateDate"), "Z"),
			at(s.text("ID3v2_4:RecordingTime"), ""), s.text("ID3v2_3:Year", "ID3v2_2:Year")),
		Lens:  s.text("ExifIFD:LensModel", "XMP-aux:Lens"),
		Title: s.text("XMP-dc:Title", "PNG:Title", "Keys:Title", "ItemList:Title", "ID3v2_4:Title", "ID3v2_3:Title", "ID3v2_2:Title"),
	}
	brand, model := s.text("IFD0:Make", "XMP-tiff:Make", "Keys:Make", "UserData:Make"), s.text("IFD0:Model", "XMP-tiff:Model", "Keys:Model", "UserData:Model")
	if c.Camera = model; !strings.HasPrefix(strings.ToLower(model), strings.ToLower(brand)) {
		c.Camera = strings.TrimSpace(brand + " " + model)
	}
	if rating, ok := s.number("XMP-xmp:Rating", "IFD0:Rating"); ok && rating >= 1 {
		c.Rating = int(rating)
	}
	latitude, ok := s.number("Composite:GPSLatitude", "XMP-exif:GPSLatitude")
	longitude, ok2 := s.number("Composite:GPSLongitude", "XMP-exif:GPSLongitude")
	if ok && ok2 {
		c.Location = &capture.Location{Latitude: latitude, Longitude: longitude}
	}
	return c
}

// same reports whether two captures are the same, with locations that are a metre apart at most.
func same(a, b capture.Capture) bool {
	if (a.Location == nil) != (b.Location == nil) || a.Location != nil && a.Location.Distance(*b.Location) > 1 {
		return false
	}
	a.Location, b.Location = nil, nil
	return a == b
}

func show(c capture.Capture) string {
	text, _ := json.Marshal(c)
	return string(text)
}

// TestRead_AgreesWithExiftool makes files in the forms of phones, cameras and programs with exiftool, and reads them with both.
func TestRead_AgreesWithExiftool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var writes, reads [][]string
	path := func(f form) string { return filepath.Join(dir, f.name) }
	for _, f := range forms {
		if err := os.WriteFile(path(f), f.file(t), 0o600); err != nil {
			t.Fatal(err)
		}
		writes = append(writes, append(append([]string{"-q", "-overwrite_original", "-n"}, f.tags...), path(f)))
		reads = append(reads, []string{"-j", "-n", "-G1", path(f)})
	}
	exiftool(t, writes...)
	outputs := json.NewDecoder(strings.NewReader(strings.ReplaceAll(exiftool(t, reads...), "{ready}", "")))
	if len(forms) < 40 {
		t.Errorf("%d forms", len(forms))
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range forms {
		var says []said
		if err := outputs.Decode(&says); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		file, err := os.ReadFile(path(f))
		if err != nil {
			t.Fatal(err)
		}
		want, got := says[0].capture(), capturefile.Read(file).Clean(now)
		if !same(got, want) {
			t.Errorf("%s:\n got %s\nwant %s, as exiftool says: %v", f.name, show(got), show(want), says[0])
		}
		written := 0
		for _, tag := range f.tags {
			if strings.Contains(tag, "Date") || strings.Contains(tag, "Title") || strings.Contains(tag, "Make") {
				written++
			}
		}
		if written > 0 && !want.Known() {
			t.Errorf("%s: exiftool has written nothing", f.name)
		}
	}
}

// TestLocation_DegreesAreThoseOfExiftool reads locations around the earth.
func TestLocation_DegreesAreThoseOfExiftool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locations := []capture.Location{{Latitude: 89.999999, Longitude: 179.999999}, {Latitude: -89.5, Longitude: -179.5}, {Latitude: 0.000001, Longitude: -0.000001}, {Latitude: 12.345678, Longitude: 98.765432}}
	for i, location := range locations {
		path := filepath.Join(dir, fmt.Sprint(i)+".jpg")
		if err := os.WriteFile(path, jpegFile(t), 0o600); err != nil {
			t.Fatal(err)
		}
		exiftool(t, []string{"-q", "-overwrite_original", fmt.Sprintf("-GPSLatitude*=%f", location.Latitude), fmt.Sprintf("-GPSLongitude*=%f", location.Longitude), path})
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := capturefile.Read(file).Location
		if got == nil || math.Abs(got.Latitude-location.Latitude) > 2e-6 || math.Abs(got.Longitude-location.Longitude) > 2e-6 {
			t.Errorf("got %v, want %v", got, location)
		}
	}
}
