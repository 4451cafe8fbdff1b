package multipartform

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// collector is a sink that keeps the file.
type collector struct {
	files        [][]byte
	declaredType string
}

// Receive reads the file to its end.
func (c *collector) Receive(_ context.Context, file io.Reader, declaredType string) error {
	data, err := io.ReadAll(file)
	if err == nil {
		c.files, c.declaredType = append(c.files, data), declaredType
	}
	return err
}

// parse reads a form.
func parse(body io.Reader, contentType string) (*Form, *collector, error) {
	f, err := newForm(body, contentType)
	if err != nil {
		return nil, nil, err
	}
	var c collector
	_, err = f.Read(context.Background(), &c)
	return f, &c, err
}

func newForm(body io.Reader, contentType string) (*Form, error) {
	r := httptest.NewRequest(http.MethodPost, "/media/create", body)
	r.Header.Set("Content-Type", contentType)
	return New(r)
}

// read reads a form into a sink.
func read(t *testing.T, body io.Reader, contentType string, sink FileSink) (media.Fields, error) {
	t.Helper()
	f, err := newForm(body, contentType)
	must(t, err)
	defer f.Close()
	return f.Read(t.Context(), sink)
}

func FuzzForm_AnyBodyIsAFormOrInvalid(f *testing.F) {
	const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	for _, seed := range []string{"", "--b--", "--b--\r\n", head, head + "x", head + "x\r\n--b", head + "x\r\n--b-", head + "x\r\n--b--",
		head + "x\r\n--b--\r\nepilogue", "preamble\r\n" + head + "\r\n--b--", head + "x\n--b--", strings.ReplaceAll(head, "\r\n", "\n") + "x\n--b--\n",
		"--b\r\nContent-Disposition: form-data; name=access\r\n\r\npublic\r\n" + head + "\r\n--b--\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, got, err := parse(bytes.NewReader(body), "multipart/form-data; boundary=b")
		slow, gotSlow, errSlow := parse(iotest.OneByteReader(bytes.NewReader(body)), "multipart/form-data; boundary=b")
		if (err == nil) != (errSlow == nil) {
			t.Fatalf("how the bytes arrive matters: %v, %v", err, errSlow)
		}
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%v is not the client's fault", err)
			}
			return
		}
		if len(got.files) != 1 || len(got.files[0]) > len(body) {
			t.Fatalf("%d files from %d bytes", len(got.files), len(body))
		}
		if !bytes.Contains(body, []byte("--b--")) {
			t.Fatal("a form without its end was taken")
		}
		if !bytes.Equal(got.files[0], gotSlow.files[0]) || !reflect.DeepEqual(form.fields, slow.fields) {
			t.Fatal("how the bytes arrive changes what they say")
		}
	})
}

func FuzzForm_ReturnsWhatWasSent(f *testing.F) {
	f.Add("a.txt", "public", "caption", "group", []byte("hello"), uint8(0))
	f.Add("a\x00\x01b\x7f.txt", "private", "", "", []byte("\x00\x01\r\n--\r\n\x7f"), uint8(1))
	f.Add(`q"uo\te; x=y`, "", "\r\n--b--", "日本", []byte("\r\n--b\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, name, access, caption, group string, data []byte, turn uint8) {
		if strings.ContainsAny(name, "\r\n") || strings.Contains(name, "%22") || strings.Contains(name, "%0") || strings.HasPrefix(name, "=?") {
			return // a part header cannot contain line breaks, and these are escapes
		}
		var body bytes.Buffer
		writer := multipart.NewWriter(&body)
		writes := []func() error{
			func() error { return writer.WriteField("access", access) },
			func() error { return writer.WriteField("caption", caption) },
			func() error { return writer.WriteField("group", group) },
			func() error {
				part, err := writer.CreatePart(textproto.MIMEHeader{
					"Content-Disposition": {`form-data; name="file"; filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`},
					"Content-Type":        {"image/png"},
				})
				if err == nil {
					_, err = part.Write(data)
				}
				return err
			},
		}
		for i := range writes {
			must(t, writes[(i+int(turn))%len(writes)]())
		}
		_ = writer.Close()
		form, got, err := parse(&body, writer.FormDataContentType())
		if len(access)+len(caption)+len(group)+len(name) > 1000 {
			return // may exceed the limits
		}
		want := media.Fields{FileName: withoutControls(name), Access: media.Access(access), Caption: caption, Group: group}
		if wrong := want.Validate(); wrong != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("fields out of bounds passed: %v", err)
			}
			return
		}
		must(t, err)
		if !reflect.DeepEqual(form.fields, want) || len(got.files) != 1 || !bytes.Equal(got.files[0], data) || got.declaredType != "image/png" {
			t.Fatalf("got %+v and %d files, want %+v", form.fields, len(got.files), want)
		}
	})
}

// withoutControls returns a name without control characters.
func withoutControls(name string) string {
	var kept []byte
	for _, b := range []byte(name) {
		if b >= ' ' && b != 0x7f || b == '\t' {
			kept = append(kept, b)
		}
	}
	return string(kept)
}

func TestForm_DoesNotCountTheFileAsOverhead(t *testing.T) {
	t.Parallel()
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	part, _ := writer.CreateFormFile("file", "large")
	file := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	_, _ = part.Write(file)
	_ = writer.WriteField("caption", strings.Repeat("c", 4096))
	_ = writer.Close()
	length := body.Len()
	form, got, err := parse(&body, writer.FormDataContentType())
	if err != nil || !bytes.Equal(got.files[0], file) {
		t.Fatalf("%v", err)
	}
	if surrounding := form.parser.overhead; surrounding != int64(length-len(file)) {
		t.Errorf("%d bytes surround the file, of %d", surrounding, length-len(file))
	}
}

// The middleware checks the credential at the end of the body, also if everything of the form
// has arrived before.
func TestForm_ReturnsTheErrorAtTheEndOfTheBody(t *testing.T) {
	t.Parallel()
	const form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--"
	denied := fault.New(fault.Unauthenticated, "revoked")
	for name, body := range map[string]io.Reader{
		"behind the last boundary":  io.MultiReader(strings.NewReader(form), iotest.ErrReader(denied)),
		"with the last boundary":    iotest.DataErrReader(io.MultiReader(strings.NewReader(form+"\r\n"), iotest.ErrReader(denied))),
		"behind an epilogue":        io.MultiReader(strings.NewReader(form+"\r\nmore"), iotest.ErrReader(denied)),
		"in the middle of the file": io.MultiReader(strings.NewReader(form[:70]), iotest.ErrReader(denied)),
		"in the middle of a header": io.MultiReader(strings.NewReader(form[:20]), iotest.ErrReader(denied)),
		"byte by byte, at the end":  iotest.OneByteReader(io.MultiReader(strings.NewReader(form), iotest.ErrReader(denied))),
	} {
		if _, _, err := parse(body, "multipart/form-data; boundary=b"); !errors.Is(err, denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := form + "\r\n" + strings.Repeat("x", maxOverhead+1)
	if _, _, err := parse(strings.NewReader(long), "multipart/form-data; boundary=b"); !errors.Is(err, errOverhead) {
		t.Errorf("a long epilogue: %v", err)
	}
}

func TestForm_PassesErrorsOfTheSink(t *testing.T) {
	t.Parallel()
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	_, _ = writer.CreateFormFile("file", "a")
	_ = writer.Close()
	r := httptest.NewRequest(http.MethodPost, "/media/create", &body)
	r.Header.Set("Content-Type", writer.FormDataContentType())
	form, err := New(r)
	must(t, err)
	broken := errors.New("the store is broken")
	if _, err := form.Read(t.Context(), failing{broken}); !errors.Is(err, broken) || fault.From(err).Kind != fault.Internal {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

// Receive fails.
func (f failing) Receive(context.Context, io.Reader, string) error { return f.err }
