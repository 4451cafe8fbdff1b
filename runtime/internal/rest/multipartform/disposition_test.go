package multipartform

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/media"
)

func TestParseDisposition_AcceptsTheFormsOfClients(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxDisposition)
	for name, tt := range map[string]struct{ given, want, cleaned string }{
		"a plain name":                            {`filename="photo.jpg"`, "photo.jpg", "photo.jpg"},
		"a name without quotation marks":          {`filename=photo.jpg`, "photo.jpg", "photo.jpg"},
		"one with spaces and without marks":       {`filename=my photo.jpg ; x=y`, "my photo.jpg", "my photo.jpg"},
		"raw UTF-8":                               {`filename="Füße 写真 🦊.png"`, "Füße 写真 🦊.png", "Füße 写真 🦊.png"},
		"decomposed letters stay so":              {"filename=\"u\u0308.txt\"", "u\u0308.txt", "u\u0308.txt"},
		"composed letters stay so":                {"filename=\"\u00fc.txt\"", "\u00fc.txt", "\u00fc.txt"},
		"a mark as browsers write it":             {`filename="7%22 single.mp3"`, `7" single.mp3`, `7" single.mp3`},
		"a line break as browsers write it":       {`filename="a%0D%0Ab.txt"`, "a\r\nb.txt", "ab.txt"},
		"a percent sign that escapes nothing":     {`filename="100%25 %2e%2e%2f.txt"`, `100%25 %2e%2e%2f.txt`, `100%25 %2e%2e%2f.txt`},
		"a mark behind a backslash":               {`filename="7\" single.mp3"`, `7" single.mp3`, `7" single.mp3`},
		"an unescaped quotation mark":             {`filename="7" single.mp3"; x=y`, `7" single.mp3`, `7" single.mp3`},
		"a backslash twice":                       {`filename="a\\b.txt"`, `a\b.txt`, "b.txt"},
		"a path of Windows":                       {`filename="C:\Users\me\a.gif"`, `C:\Users\me\a.gif`, "a.gif"},
		"a folder of Windows":                     {`filename="C:\Pictures\"`, `C:\Pictures\`, "file"},
		"a path that climbs":                      {`filename="../../etc/passwd"`, "../../etc/passwd", "passwd"},
		"a semicolon in marks":                    {`filename="a;b=c.txt"`, "a;b=c.txt", "a;b=c.txt"},
		"the exact form":                          {`filename*=UTF-8''%e2%82%ac%20%22.txt`, `€ ".txt`, `€ ".txt`},
		"the exact form, with a language":         {`filename*=utf-8'de'M%C3%BCll.txt`, "Müll.txt", "Müll.txt"},
		"the exact form in Latin-1":               {`filename*=ISO-8859-1''M%FCll.txt`, "Müll.txt", "Müll.txt"},
		"the exact form wins, wherever it stands": {`filename*=UTF-8''b; filename="a"`, "b", "b"},
		"an exact form that is none":              {`filename="a.txt"; filename*=UTF-8''%ZZ`, "a.txt", "a.txt"},
		"an exact form in another encoding":       {`filename="a.txt"; filename*=koi8-r''%C0`, "a.txt", "a.txt"},
		"an exact form that is not UTF-8":         {`filename="a.txt"; filename*=UTF-8''%FF`, "a.txt", "a.txt"},
		"a name in pieces":                        {`filename*0="long "; filename*1="name.txt"`, "long name.txt", "long name.txt"},
		"encoded words":                           {`filename="=?UTF-8?B?w5xiZXIudHh0?="`, "Über.txt", "Über.txt"},
		"two encoded words":                       {`filename="=?utf-8?Q?=C3=9Cber?= =?utf-8?Q?.txt?="`, "Über.txt", "Über.txt"},
		"a name that looks like a word":           {`filename="=?UTF-8?X?y?="`, "=?UTF-8?X?y?=", "=?UTF-8?X?y?="},
		"a name that begins like a word":          {`filename="=?UTF-8?B?w5w=?=.txt"`, "=?UTF-8?B?w5w=?=.txt", "=?UTF-8?B?w5w=?=.txt"},
		"a text direction override":               {"filename=\"evil\u202egpj.exe\"", "evil\u202egpj.exe", "evilgpj.exe"},
		"bytes that are not UTF-8":                {"filename=\"\xff\xfe.png\"", "\xff\xfe.png", "\uFFFD.png"},
		"half of a surrogate pair":                {"filename=\"\xed\xa0\x80.png\"", "\xed\xa0\x80.png", "\uFFFD.png"},
		"no name":                                 {`x=y`, "", "file"},
		"an empty name":                           {`filename=""`, "", "file"},
		"an unclosed quotation mark":              {`filename="a.txt`, `"a.txt`, `"a.txt`},
		"capitals":                                {`FileName="a.txt"`, "a.txt", "a.txt"},
		"extra semicolons":                        {`; ;filename="a.txt";;`, "a.txt", "a.txt"},
		"a very long name":                        {`filename="` + long[:7000] + `.jpeg"`, long[:7000] + ".jpeg", long[:250] + ".jpeg"},
	} {
		got, ok := parseDisposition(`form-data; name="file"; ` + tt.given)
		if !ok || got.kind != "form-data" || got.name != "file" || got.fileName != tt.want {
			t.Errorf("%s: %+v, %t; want %q", name, got, ok, tt.want)
		}
		if cleaned := media.CleanFileName(got.fileName); cleaned != tt.cleaned {
			t.Errorf("%s becomes %q, want %q", name, cleaned, tt.cleaned)
		}
	}
	for name, given := range map[string]string{
		"nothing": "", "no kind": `; name="file"`, "a name twice": `form-data; name="a"; NAME="b"`,
		"a file name twice": `form-data; filename="a"; filename="b"`, "too long": `form-data; name="` + long + `"`,
	} {
		if got, ok := parseDisposition(given); ok {
			t.Errorf("%s is accepted as %+v", name, got)
		}
	}
}

func FuzzDisposition_BoundsNames(f *testing.F) {
	for _, seed := range []string{`form-data; name="file"; filename="a.txt"`, `form-data; name=file; filename*=UTF-8''%e2%82%ac`, `form-data; name="a\"b"; filename="C:\x\"`,
		`form-data; filename*0="a"; filename*1*=''%20`, `form-data; filename="=?UTF-8?B?w5w=?="`, `;;=;"`, "form-data; filename=\"\x00\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, ok := parseDisposition(value)
		if !ok {
			return
		}
		// Latin-1 and encoded words are at most three times as long in UTF-8.
		if len(value) > maxDisposition || len(got.name) > len(value) || len(got.fileName) > 3*len(value) {
			t.Fatalf("%d bytes are parsed as %+v", len(value), got)
		}
		cleaned := media.CleanFileName(got.fileName)
		if cleaned == "" || len(cleaned) > media.MaxFileName || !utf8.ValidString(cleaned) || strings.ContainsAny(cleaned, `/\`) || strings.ContainsFunc(cleaned, unicode.IsControl) {
			t.Fatalf("%q is cleaned to %q", value, cleaned)
		}
	})
}

// FuzzDisposition_ReturnsAQuotedName parses a name in every form that clients send.
func FuzzDisposition_ReturnsAQuotedName(f *testing.F) {
	for _, seed := range []string{"a.txt", `q"uo\te; x=y`, "日本", `\`, `\\"`, `"`, ` a `, "a;b", "=?x?="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 500 || strings.HasPrefix(name, "=?") {
			return
		}
		for _, code := range []string{"%22", "%0D", "%0d", "%0A", "%0a"} {
			if strings.Contains(name, code) {
				return // ambiguous, by the standard
			}
		}
		escaped := `form-data; name="file"; filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"; x=y`
		if got, ok := parseDisposition(escaped); !ok || got.fileName != name || got.name != "file" {
			t.Fatalf("escaped by backslashes: %q gave %+v", escaped, got)
		}
		if utf8.ValidString(name) {
			exact := "form-data; name=file; filename*=UTF-8''" + percent(name)
			if got, ok := parseDisposition(exact); !ok || got.fileName != name || got.name != "file" {
				t.Fatalf("exact: %q gave %+v", exact, got)
			}
		}
		if !strings.Contains(name, `\`) {
			browser := `form-data; name="file"; filename="` + strings.ReplaceAll(name, `"`, "%22") + `"`
			if got, ok := parseDisposition(browser); !ok || got.fileName != name || got.name != "file" {
				t.Fatalf("as browsers: %q gave %+v", browser, got)
			}
		}
	})
}

func percent(text string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for _, b := range []byte(text) {
		out.WriteString("%" + string(hex[b>>4]) + string(hex[b&15]))
	}
	return out.String()
}
