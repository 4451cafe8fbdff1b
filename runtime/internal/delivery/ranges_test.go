package delivery

import (
	"bytes"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

var specForm = regexp.MustCompile(`^([0-9]*)-([0-9]*)$`)

// span is one range of a file, end excluded.
type span struct{ from, to int }

// model parses a Range by the grammar of RFC 9110, with numbers of any size. known is false
// for a field that must be ignored; malformed is true for one that may be rejected.
func model(value string, size int) (spans []span, known, malformed bool) {
	unit, set, _ := strings.Cut(value, "=")
	if !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return nil, false, false
	}
	number := func(text string) int { // no position is past the end by more than one
		n, _ := new(big.Int).SetString(text, 10)
		if limit := big.NewInt(int64(size) + 1); n.Cmp(limit) > 0 {
			n = limit
		}
		return int(n.Int64())
	}
	some := false
	for _, spec := range strings.Split(set, ",") {
		spec = strings.Trim(spec, " \t")
		if spec == "" {
			continue
		}
		some = true
		parts := specForm.FindStringSubmatch(spec)
		switch {
		case parts == nil || parts[1]+parts[2] == "":
			return nil, true, true
		case parts[1] == "":
			if last := min(number(parts[2]), size); last > 0 {
				spans = append(spans, span{size - last, size})
			}
		default:
			from, to := number(parts[1]), size
			if parts[2] != "" {
				if a, _ := new(big.Int).SetString(parts[1], 10); a.Cmp(must(new(big.Int).SetString(parts[2], 10))) > 0 {
					return nil, true, true
				}
				to = min(number(parts[2])+1, size)
			}
			if from < size {
				spans = append(spans, span{from, to})
			}
		}
	}
	return spans, true, !some
}

func must(n *big.Int, _ bool) *big.Int { return n }

// FuzzSanitizeRange_ServesTheRequestedSlice sends any Range through the whole handler: the
// response is a slice that was requested, the whole file, or 416 if no range is satisfiable.
func FuzzSanitizeRange_ServesTheRequestedSlice(f *testing.F) {
	for _, seed := range []string{"", "bytes=0-9", "bytes=-5", "bytes=-0", "bytes=5-", "bytes=0-0,-1", "bytes=9-5", "Bytes = 0-1", "lines=1-2", "bytes=0-,0-", "bytes= 1-2 , 4-5,, ", "bytes=99-",
		"bytes=1-99999999999999999999", "bytes=99999999999999999999-", "bytes=-99999999999999999999", "bytes=00-01", "bytes=+1-2", "bytes=0-1" + strings.Repeat(",3-4", 20), "bytes", "bytes=", "=0-1", "bytes=-", "bytes=0--1"} {
		f.Add(seed, uint8(50), false)
		f.Add(seed, uint8(0), false)
		f.Add(seed, uint8(1), true)
	}
	f.Fuzz(func(t *testing.T, value string, length uint8, head bool) {
		size := int(length)
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i*7 + 3)
		}
		objects := &stored{data: data}
		router := chi.NewRouter()
		newDelivery(t, publicItem(size), objects).Mount(router)
		r := httptest.NewRequest(http.MethodGet, "/media/file/"+uuid.UUID{5}.String()+"/original/a", nil)
		if head {
			r.Method = http.MethodHead
		}
		r.Header["Range"] = []string{value}
		recorder := httptest.NewRecorder()
		router.ServeHTTP(recorder, r)
		got := recorder.Result()
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if objects.closed != objects.opened {
			t.Fatalf("%d of %d readers were closed", objects.closed, objects.opened)
		}
		spans, known, malformed := model(value, size)
		sum := 0
		for _, s := range spans {
			sum += s.to - s.from
		}
		whole := head || !known || size == 0 || strings.Count(value, ",") >= maxRanges
		switch got.StatusCode {
		case http.StatusOK:
			if !whole && !malformed && (len(spans) == 0 || sum <= size && len(spans) > 0 && sum < size) {
				t.Fatalf("%q of %d bytes: the whole file, not %v", value, size, spans)
			}
			if !head && !bytes.Equal(body, data) || got.ContentLength != int64(size) {
				t.Fatalf("%q: %d bytes, Content-Length %d", value, len(body), got.ContentLength)
			}
		case http.StatusRequestedRangeNotSatisfiable:
			if whole || len(spans) > 0 && !malformed || got.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", size) {
				t.Fatalf("%q of %d bytes is rejected, but means %v", value, size, spans)
			}
		case http.StatusPartialContent:
			if whole || malformed {
				t.Fatalf("%q of %d bytes: a part", value, size)
			}
			if len(body) > size+maxRanges*300 || objects.asked > int64(size*maxRanges) {
				t.Fatalf("%q: %d bytes sent, %d asked for", value, len(body), objects.asked)
			}
			compare(t, got, body, data, spans)
		default:
			t.Fatalf("%q: %d", value, got.StatusCode)
		}
		if head && len(body) > 0 {
			t.Fatalf("HEAD has %d bytes", len(body))
		}
	})
}

// compare compares the parts of a response with the requested slices.
func compare(t *testing.T, got *http.Response, body, data []byte, spans []span) {
	t.Helper()
	name := func(s span) string { return fmt.Sprintf("bytes %d-%d/%d", s.from, s.to-1, len(data)) }
	if len(spans) == 1 {
		if s := spans[0]; !bytes.Equal(body, data[s.from:s.to]) || got.Header.Get("Content-Range") != name(s) || got.ContentLength != int64(len(body)) {
			t.Fatalf("%s is %q, want %s", got.Header.Get("Content-Range"), body, name(s))
		}
		return
	}
	_, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, s := range spans {
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if piece, err := io.ReadAll(part); err != nil || !bytes.Equal(piece, data[s.from:s.to]) || part.Header.Get("Content-Range") != name(s) {
			t.Fatalf("%s is %q, %v, want %s", part.Header.Get("Content-Range"), piece, err, name(s))
		}
	}
	if _, err := parts.NextPart(); err != io.EOF {
		t.Fatalf("more parts than were requested: %v", err)
	}
}
