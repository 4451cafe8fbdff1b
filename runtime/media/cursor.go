package media

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Position is a place in an ordered list: after an item, whether it exists or not.
type Position struct {
	ID   uuid.UUID
	Name string // as LowerName returns it; of the order by name
	Size int64  // of the order by size
	// Captured is of the order by capture, in milliseconds since 1970.
	Captured int64
	// Common: the items were read in the order of the list, because too many items have the terms of the
	// search. The next page does not try again.
	Common bool
}

// PositionOf returns the position after an item.
func PositionOf(item Item, order Order) Position {
	at := Position{ID: item.ID}
	switch order.By {
	case ByName:
		at.Name = LowerName(item.FileName)
	case BySize:
		at.Size = item.File().Bytes
	case ByCapture:
		at.Captured = captureOrder(item)
	}
	return at
}

// Compare orders items as a list in ascending order has them.
func (p Position) Compare(other Position) int {
	if c := strings.Compare(p.Name, other.Name); c != 0 {
		return c
	}
	if p.Size != other.Size {
		if p.Size < other.Size {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(p.Captured, other.Captured); c != 0 {
		return c
	}
	return slices.Compare(p.ID[:], other.ID[:])
}

// A cursor is a version, flags, the binding, the id, and the name or the size, in base64.
const (
	cursorVersion = 1
	cursorCommon  = 1 // a flag
	bindingLength = 12
	cursorHead    = 2 + bindingLength + len(uuid.UUID{})
)

// cursorText is base64 that has one text for each cursor.
var cursorText = base64.RawURLEncoding.Strict()

// cursor returns the text of a position in the list of a query.
func (q Query) cursor(scope Scope, at Position) string {
	binding := q.binding(scope)
	raw := append(make([]byte, 0, cursorHead+MaxFileName), cursorVersion, 0)
	if at.Common {
		raw[1] = cursorCommon
	}
	raw = append(append(raw, binding[:]...), at.ID[:]...)
	switch q.Order.By {
	case ByName:
		raw = append(raw, at.Name...)
	case BySize:
		raw = binary.BigEndian.AppendUint64(raw, uint64(at.Size)) //nolint:gosec // G115: a size is not negative
	case ByCapture:
		raw = binary.BigEndian.AppendUint64(raw, uint64(at.Captured-minCapture)) //nolint:gosec // G115: not below minCapture
	}
	return cursorText.EncodeToString(raw)
}

var errCursor = fault.New(fault.Invalid, "after must be the cursor of a list, as the list returned it")

// position reads a cursor of the list of a query. It is not signed: a forged cursor is a
// position in the list of the query, and so in the caller's own.
func (q Query) position(scope Scope, cursor string) (Position, error) {
	if len(cursor) > cursorText.EncodedLen(cursorHead+MaxFileName) {
		return Position{}, errCursor
	}
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(raw) < cursorHead || raw[0] != cursorVersion || raw[1]&^cursorCommon != 0 {
		return Position{}, errCursor
	}
	if binding := q.binding(scope); string(raw[2:2+bindingLength]) != string(binding[:]) {
		return Position{}, fault.New(fault.Invalid, "after is the cursor of another list: send it with the credential, the filters and the sort of the list that returned it")
	}
	at := Position{ID: uuid.UUID(raw[2+bindingLength : cursorHead]), Common: raw[1] == cursorCommon}
	key := raw[cursorHead:]
	switch q.Order.By {
	case ByName:
		at.Name = string(key)
		if !utf8.ValidString(at.Name) || strings.ContainsRune(at.Name, 0) || LowerName(at.Name) != at.Name {
			return Position{}, errCursor
		}
	case BySize:
		if len(key) != 8 || binary.BigEndian.Uint64(key) > math.MaxInt64 {
			return Position{}, errCursor
		}
		at.Size = int64(binary.BigEndian.Uint64(key)) //nolint:gosec // G115: checked
	case ByCapture:
		if len(key) != 8 || binary.BigEndian.Uint64(key) > maxCapture-minCapture {
			return Position{}, errCursor
		}
		at.Captured = minCapture + int64(binary.BigEndian.Uint64(key)) //nolint:gosec // G115: checked
	default:
		if len(key) != 0 {
			return Position{}, errCursor
		}
	}
	return at, nil
}

// binding identifies the list of a query: its account, app, filters and order. The limit may change
// from page to page.
func (q Query) binding(scope Scope) [bindingLength]byte {
	state := "sealed"
	if q.Drafts {
		state = "draft"
	}
	first, end := q.IDs()
	fields := []string{scope.AccountID.String(), scope.AppID.String(), state, q.Order.String(), string(q.Access), q.Group, q.Type, LowerName(q.Name), first.String(), end.String()}
	for _, key := range slices.Sorted(maps.Keys(q.Metadata)) {
		fields = append(fields, key, q.Metadata[key])
	}
	fields = append(fields, q.Captured.binding()...)
	if q.Words.Any() {
		fields = append(fields, q.Words.text())
	}
	traits := q.Traits.Parameters()
	for _, name := range slices.Sorted(maps.Keys(traits)) {
		fields = append(fields, name, traits[name])
	}
	hash := sha256.New()
	for _, field := range fields {
		hash.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field)))) //nolint:gosec // G115: fields are bounded
		hash.Write([]byte(field))
	}
	return [bindingLength]byte(hash.Sum(nil)[:bindingLength])
}
