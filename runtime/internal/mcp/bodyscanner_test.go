package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mediastack.dev/runtime/fault"
)

// extracted returns the body without its files, and the files.
func extracted(body io.Reader) (string, []string, error) {
	var files []string
	rest, err := extractFiles(body, func(from *stringReader, _ bool) (string, error) {
		content, _ := io.ReadAll(from)
		files = append(files, string(content))
		return "F", nil
	})
	return string(rest), files, err
}

func TestExtractFiles_ReplacesFilesByPlaceholders(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"fileBase64":"abc","x":1}`:                        `{"fileBase64":"F","x":1}`,
		`{ "x" : [ {"fileBase64" : "a\"b"} ] }`:             `{ "x" : [ {"fileBase64" : "F"} ] }`,
		`{"file\u0042ase64":"abc"}`:                         `{"file\u0042ase64":"F"}`,
		`{"fileBase64":{"fileBase64":"abc"}}`:               `{"fileBase64":{"fileBase64":"F"}}`,
		`{"fileBase64":["abc"],"y":"abc"}`:                  `{"fileBase64":["abc"],"y":"abc"}`,
		`{"x":"fileBase64","y":"abc"}`:                      `{"x":"fileBase64","y":"abc"}`,
		`["fileBase64","abc"]`:                              `["fileBase64","abc"]`,
		`{"filebase64":"abc","fileBase64 ":"abc"}`:          `{"filebase64":"abc","fileBase64 ":"abc"}`,
		`{"x":"\\","fileBase64":"abc"}`:                     `{"x":"\\","fileBase64":"F"}`,
		`{"x":"\"fileBase64\":","y":"abc"}`:                 `{"x":"\"fileBase64\":","y":"abc"}`,
		`{"fileBase64":1,"x":"abc"}`:                        `{"fileBase64":1,"x":"abc"}`,
		`[{"fileBase64":"a"},{"fileBase64":"b"},{"z":"b"}]`: `[{"fileBase64":"F"},{"fileBase64":"F"},{"z":"b"}]`,
		`no JSON "at all`:                                   `no JSON "at all`,
		`]}{"fileBase64":"a"`:                               `]}{"fileBase64":"F"`,
	} {
		for name, from := range map[string]io.Reader{"at once": strings.NewReader(body), "byte by byte": iotest.OneByteReader(strings.NewReader(body))} {
			if rest, _, err := extracted(from); err != nil || rest != want {
				t.Errorf("%s, %s: %s, %v", body, name, rest, err)
			}
		}
	}
}

// A file follows the same rules as any other JSON string: no raw control characters and no unknown
// escapes.
func TestFileString_IsReadAsJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`\"\\\/\b\f\n\r\t`: "\"\\/\b\f\n\r\t", `\u0041\u000a\u00e9\ud83d\ude00`: "A\n???", "\x7f\xc3\xa9": "\x7f\xc3\xa9", "": "",
	} {
		if rest, files, err := extracted(strings.NewReader(`{"fileBase64":"` + text + `"}`)); err != nil || rest != `{"fileBase64":"F"}` || len(files) != 1 || files[0] != want {
			t.Errorf("%q: %s, %q, %v", text, rest, files, err)
		}
	}
	wrong := []string{`\q`, `\U0041`, `\u00zz`, `\u+041`, `\u004g`, `\'`}
	for c := range 0x20 {
		wrong = append(wrong, string(rune(c)), `\`+string(rune(c)))
	}
	for _, text := range wrong {
		for _, around := range []string{text, "aGk" + text, text + "aGk=", strings.Repeat("A", 40<<10) + text} {
			_, _, err := extracted(strings.NewReader(`{"fileBase64":"` + around + `"}`))
			var rejection rpcError
			if !errors.As(err, &rejection) || rejection.code != jsonrpc.CodeParseError || !fault.Is(err, fault.Invalid) {
				t.Errorf("%.20q: %v", around, err)
			}
		}
	}
}

// BenchmarkFile measures a body with a file of 10 MB: its scan and its decoding.
func BenchmarkFile(b *testing.B) {
	const size = 10 << 20
	for name, line := range map[string]int{"in one line": base64.StdEncoding.EncodedLen(size), "in lines of 76": 76} {
		encoded := base64.StdEncoding.EncodeToString(make([]byte, size))
		var file strings.Builder
		for rest := encoded; rest != ""; rest = rest[min(line, len(rest)):] {
			file.WriteString(rest[:min(line, len(rest))])
			if line == 76 {
				file.WriteString(`\r\n`)
			}
		}
		body := `{"fileBase64":"` + file.String() + `"}`
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				_, err := extractFiles(strings.NewReader(body), func(from *stringReader, _ bool) (string, error) {
					_, err := io.Copy(io.Discard, &decoder{from: from})
					return "F", err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzExtractFiles compares bodyScanner with encoding/json: it extracts the strings that
// encoding/json finds under the name, and changes nothing else.
func FuzzExtractFiles(f *testing.F) {
	for _, seed := range []string{`{"fileBase64":"a\u0041\n","x":["fileBase64",{"fileBase64":1}]}`, `[{"a":"\\\""},{"fileBase64":"="}]`, `"fileBase64"`, `{"fileBase64"`, "{\"fileBase64\":\"a\nb\"}", `{"fileBase64":"\q"}`, `{"fileBase64":"\u00zz"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > maxEnvelope {
			return
		}
		rest, _, err := extracted(bytes.NewReader(body))
		if !json.Valid(body) {
			if err == nil && json.Valid([]byte(rest)) {
				t.Errorf("%q became JSON: %q", body, rest)
			}
			return
		}
		if err != nil {
			if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.TooLarge) {
				t.Fatal(err)
			}
			return
		}
		want, got := replaced(t, body), replaced(t, []byte(rest))
		if want != got {
			t.Errorf("%q\nwant %s\ngot  %s", body, want, got)
		}
		if strings.Count(want, `"fileBase64":"F"`) != strings.Count(rest, `"F"`) && !bytes.Contains(body, []byte(`"F"`)) && !bytes.Contains(body, []byte(`\`)) && !duplicates(body) {
			t.Errorf("%q keeps a file: %s", body, rest)
		}
	})
}

// duplicates reports whether an object may have a duplicate field, which encoding/json hides.
func duplicates(body []byte) bool { return bytes.Count(body, []byte(fileArgument)) > 1 }

// replaced returns the body with F instead of every string under the name, by encoding/json.
func replaced(t *testing.T, body []byte) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			for name, child := range node {
				if _, ok := child.(string); ok && name == fileArgument {
					node[name] = "F"
					continue
				}
				walk(child)
			}
		case []any:
			for _, child := range node {
				walk(child)
			}
		}
	}
	walk(value)
	text, _ := json.Marshal(value)
	return string(text)
}

// FuzzBase64 compares the decoder with encoding/base64.
func FuzzBase64(f *testing.F) {
	for _, seed := range []string{"", "aGk=", "aGk", "-_-_", "+/+/", "a", "====", "aG k=\n", "aGk=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, encoded string) {
		got, err := io.ReadAll(iotest.HalfReader(&decoder{from: strings.NewReader(encoded)}))
		plain := strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(encoded)
		var want []byte
		good := false
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			if decoded, err := encoding.DecodeString(plain); err == nil {
				want, good = decoded, true
			}
		}
		if good = good && plain != ""; good != (err == nil) || good && !bytes.Equal(got, want) {
			t.Errorf("%q is decoded as %q and %v, by package base64 as %q (%t)", encoded, got, err, want, good)
		}
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", encoded, err)
		}
	})
}

func TestExtractFiles_ReturnsErrorsOfTheBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	body := io.MultiReader(strings.NewReader(`{"fileBase64":"aaaa`), iotest.ErrReader(broken))
	if _, _, err := extracted(body); !errors.Is(err, broken) || !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}
