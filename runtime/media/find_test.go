package media

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// invalid reports whether an error is the client's, with a text.
func invalid(err error) bool {
	var known *fault.Error
	return fault.Is(err, fault.Invalid) && errors.As(err, &known) && known.Public != ""
}

// FuzzCursor reads cursors that nobody made. One that is accepted is a position, and no other text is the
// same position.
func FuzzCursor(f *testing.F) {
	scope := Scope{AccountID: uuid.New(), AppID: uuid.New()}
	orders := []Order{{By: ByTime}, {By: ByName, Ascending: true}, {By: BySize}}
	for i, order := range orders {
		q := Query{Order: order}
		f.Add(q.cursor(scope, Position{ID: uuid.New(), Name: "photo.jpg", Size: 1 << 40, Common: i == 1}), []byte("x"), uint8(i))
	}
	f.Add("", []byte{}, uint8(0))
	f.Add("AAAA", []byte("\xff\x00"), uint8(1))
	f.Add("AQA", []byte{0x80, 0, 0, 0, 0, 0, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, text string, key []byte, which uint8) {
		q := Query{Order: orders[int(which)%len(orders)]}
		binding := q.binding(scope)
		bound := append(append(append([]byte{cursorVersion, which & 1}, binding[:]...), make([]byte, 16)...), key...)
		for _, cursor := range []string{text, base64.RawURLEncoding.EncodeToString(bound)} {
			at, err := q.position(scope, cursor)
			if err != nil {
				if !invalid(err) {
					t.Fatalf("%q: %v", cursor, err)
				}
				continue
			}
			if again := q.cursor(scope, at); again != cursor {
				t.Fatalf("%q is read as %+v, whose cursor is %q", cursor, at, again)
			}
			if at.Size < 0 || !utf8.ValidString(at.Name) {
				t.Fatalf("%q is %+v", cursor, at)
			}
			for _, other := range []Query{{Order: Order{By: BySize, Ascending: true}}, {Order: q.Order, Drafts: true}, {Order: q.Order, Search: Search{Name: "x"}}} {
				if _, err := other.position(scope, cursor); !invalid(err) {
					t.Fatalf("%q is a cursor of %+v, too", cursor, other)
				}
			}
			if _, err := q.position(Scope{AccountID: scope.AccountID}, cursor); !invalid(err) {
				t.Fatalf("%q is a cursor of another app, too", cursor)
			}
		}
	})
}

// FuzzQuery parses queries. One that is accepted has the bounds that the store relies on.
func FuzzQuery(f *testing.F) {
	f.Add("image/*", "photo", "2026-11-22T18:30:00Z", "2026-11-23T00:00:00.5+02:00", "-size", "sealed", "color", "red")
	f.Add("IMAGE/PNG", "\x00", "9999-12-31T23:59:59Z", "", "name", "draft", "A", "\xff")
	f.Add("a/b/c", "", "0000-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "--time", "", "a.b-c_d", "")
	f.Fuzz(func(t *testing.T, kind, name, from, to, sort, state, key, value string) {
		text := QueryText{Type: kind, Name: name, From: from, To: to, Sort: sort, State: state, Metadata: map[string]string{key: value}}
		q, err := text.Parse()
		if err == nil {
			err = q.validate()
		}
		if err != nil {
			if !invalid(err) {
				t.Fatalf("%+v: %v", text, err)
			}
			return
		}
		if again, err := ParseOrder(q.Order.String()); err != nil || again != q.Order {
			t.Fatalf("the order %q is %+v, %v", q.Order, again, err)
		}
		first, end := q.IDs()
		if !utf8.ValidString(q.Name) || !utf8.ValidString(value) || !metadataKey.MatchString(key) || q.Type != "" && !mimeType.MatchString(q.Type) ||
			string(first[6:]) != string(make([]byte, 10)) && first != MaxItemID || end == uuid.Nil && q.To.After(time.UnixMilli(0)) {
			t.Fatalf("%+v is accepted as %+v", text, q)
		}
	})
}

func TestSearch_IDsBoundTheTimeHalfOpen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 18, 30, 0, int(250*time.Millisecond), time.UTC)
	id := func(ms int64) uuid.UUID {
		id, _ := Search{From: time.UnixMilli(ms)}.IDs()
		id[15] = 7
		return id
	}
	contains := func(s Search, id uuid.UUID) bool {
		first, end := s.IDs()
		return string(id[:]) >= string(first[:]) && string(id[:]) < string(end[:])
	}
	ms := at.UnixMilli()
	for name, tt := range map[string]struct {
		search Search
		id     uuid.UUID
		want   bool
	}{
		"from its millisecond":         {Search{From: at}, id(ms), true},
		"from a millisecond later":     {Search{From: at.Add(time.Millisecond)}, id(ms), false},
		"from a part of a millisecond": {Search{From: at.Add(time.Microsecond)}, id(ms), false},
		"to its millisecond":           {Search{To: at}, id(ms), false},
		"to a millisecond later":       {Search{To: at.Add(time.Millisecond)}, id(ms), true},
		"to the year 9999":             {Search{To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, id(ms), true},
		"from before 1970":             {Search{From: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)}, id(0), true},
		"no bound":                     {Search{}, id(ms), true},
	} {
		if got := contains(tt.search, tt.id); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
