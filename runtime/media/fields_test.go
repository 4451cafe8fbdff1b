package media

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
)

func TestCleanFileName_KeepsNamesAndRemovesTricks(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"photo.jpg":                         "photo.jpg",
		"Füße 写真 🦊.png":                     "Füße 写真 🦊.png",
		"../../etc/passwd":                  "passwd",
		`C:\Users\me\a.gif`:                 "a.gif",
		"a\x00b\r\nc.txt":                   "abc.txt",
		"evil\u202Egnp.exe":                 "evilgnp.exe",
		"":                                  "file",
		"..":                                "file",
		"/":                                 "file",
		"   ":                               "file",
		"\xff.png":                          "\uFFFD.png",
		strings.Repeat("a", 300) + ".jpeg":  strings.Repeat("a", 250) + ".jpeg",
		strings.Repeat("写", 100) + ".jpeg":  strings.Repeat("写", 83) + ".jpeg",
		".htaccess":                         ".htaccess",
		strings.Repeat("a", 250) + "     b": strings.Repeat("a", 250), // ended in white space once
		strings.Repeat(".", 250) + strings.Repeat(" ", 40) + "x": "file",
		"x." + strings.Repeat("extension", 9):                    "x." + strings.Repeat("extension", 9),
	} {
		if got := CleanFileName(given); got != want {
			t.Errorf("CleanFileName(%q) = %q, want %q", given, got, want)
		}
	}
}

func FuzzCleanFileName(f *testing.F) {
	for _, seed := range []string{"a/b\\c\x00.jpg", "..", " . ", "\u202e.\u2028", strings.Repeat("写", 200) + ".jpeg", "\xed\xa0\x80", strings.Repeat(" ", 300) + "x", strings.Repeat("a", 250) + ". " + strings.Repeat("b", 20)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := CleanFileName(name)
		if got == "" || len(got) > MaxFileName || !utf8.ValidString(got) || strings.ContainsAny(got, `/\`) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("CleanFileName(%q) = %q", name, got)
		}
		if again := CleanFileName(got); again != got {
			t.Errorf("cleaning %q again gives %q", got, again)
		}
	})
}

func TestFieldsValidate_NamesTheFieldOutOfBounds(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]Fields{
		"access":  {Access: "secret"},
		"caption": {Caption: strings.Repeat("a", MaxCaption+1)},
		"group":   {Group: strings.Repeat("a", MaxGroup+1)},
	} {
		if err := bad.Validate(); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.From(err).Public, name) {
			t.Errorf("a bad %s must be rejected with its name, not %v", name, err)
		}
	}
	for name, bad := range map[string]Fields{"NUL": {Caption: "a\x00"}, "not UTF-8": {Group: "\xff"}, "line break in a group": {Group: "a\nb"}} {
		if err := bad.Validate(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s must be rejected, not %v", name, err)
		}
	}
	fields := Fields{Caption: "two\nlines"}
	err := fields.Validate()
	if fields = fields.WithDefaults(); err != nil || fields.Access != Private || fields.FileName != "file" {
		t.Errorf("the defaults are private and a name, not %+v, %v", fields, err)
	}
}
