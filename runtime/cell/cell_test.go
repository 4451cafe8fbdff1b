package cell_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/cell"
)

func TestNewID_NamesItsCellAndSortsByTime(t *testing.T) {
	t.Parallel()
	var last uuid.UUID
	seen := map[uuid.UUID]bool{}
	for i := range 20_000 {
		n := cell.Number(i) & cell.Max
		began := time.Now().Truncate(time.Millisecond)
		id, err := n.NewID()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := cell.OfID(id); !ok || got != n {
			t.Fatalf("%s of cell %d is read as one of %d, %t", id, n, got, ok)
		}
		if text := id.String(); text[20:23] != n.String() || text[14] != '8' || !strings.Contains("89ab", text[19:20]) {
			t.Fatalf("the text %s has the version %c, the variant %c, and not the number %s", text, text[14], text[19], n)
		}
		parsed, err := uuid.Parse(id.String())
		if err != nil || parsed != id {
			t.Fatalf("%s is parsed as %s, %v", id, parsed, err)
		}
		// Byte order is PostgreSQL's order of uuids.
		if bytes.Compare(id[:8], last[:8]) < 0 || seen[id] {
			t.Fatalf("%s follows %s", id, last)
		}
		ms := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
		if made := time.UnixMilli(ms); made.Before(began.Add(-time.Millisecond)) || made.After(time.Now().Add(time.Second)) {
			t.Fatalf("%s was made at %s, not after %s", id, made, began)
		}
		last, seen[id] = id, true
	}
}

func TestNewID_OfOneCellIncreases(t *testing.T) {
	t.Parallel()
	for _, n := range []cell.Number{0, 1, cell.Max} {
		var last uuid.UUID
		for range 20_000 {
			id, err := n.NewID()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Compare(id[:], last[:]) <= 0 {
				t.Fatalf("cell %d: %s follows %s", n, id, last)
			}
			last = id
		}
	}
}

func TestOfID_RejectsOtherUUIDs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"00000000-0000-0000-0000-000000000000", "01a1fd74-5f6f-7afa-be5e-3510feddacd9", "c232ab00-9414-4ec0-b3c8-5d1bf1a5e1f2", "01a1fd74-5f6f-8afa-fe5e-3510feddacd9"} {
		if n, ok := cell.OfID(uuid.MustParse(text)); ok {
			t.Errorf("%s is read as an id of cell %d", text, n)
		}
	}
}

func TestOfCredential_ReadsTheNumber(t *testing.T) {
	t.Parallel()
	for n := range cell.Max + 1 {
		if got, ok := cell.OfCredential(n.Credential("msk_", "secret")); !ok || got != n {
			t.Fatalf("a credential of cell %d is read as one of %d, %t", n, got, ok)
		}
	}
	for _, text := range []string{"", "msk_", "msk_00", "msk_00g", "msk_00C", "msk_+0c", "msk_0x1", "msk_ 0c", "msk_1_0"} {
		if n, ok := cell.OfCredential(text + "secret"); ok && len(text) >= 7 {
			t.Errorf("%q is read as a credential of cell %d", text, n)
		}
		if n, ok := cell.OfCredential(text); ok {
			t.Errorf("%q is read as a credential of cell %d", text, n)
		}
	}
}
