// Package cell has the number of an installation among several behind one base URL, and the form
// in which ids and credentials contain it. A proxy in front finds the installation of a request by
// it; see docs/decisions/0023. The domain packages make their ids and credentials with it.
package cell

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// Number is the number of an installation. It is fixed when the installation is made.
type Number uint16

// Max is the largest number. A number has 12 bits: three hexadecimal digits.
const Max Number = 1<<12 - 1

// String returns the three hexadecimal digits that ids and credentials contain.
func (n Number) String() string { return fmt.Sprintf("%03x", uint16(n)) }

// prefixLength is the length of the prefix that says what kind of credential a text is.
const prefixLength = len("msk_")

// digits is the length of a number as text.
const digits = 3

// NewID returns an id that contains the number. Ids of one process increase, and ids of several
// sort by the time of creation.
//
// It is a UUIDv8 (RFC 9562, section 5.8) with the fields of a UUIDv7 at its beginning: 48 bits of
// milliseconds, the version, 12 bits of a fraction of the millisecond or a counter, the variant,
// 2 random bits, the number, 48 random bits. The number is the last three digits of the fourth
// group of the text: 01a1fd74-5f6f-8afa-b00c-3510feddacd9 has number 12.
func (n Number) NewID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.UUID{}, fmt.Errorf("create an id: %w", err)
	}
	id[6] = id[6]&0x0f | 8<<4
	binary.BigEndian.PutUint16(id[8:], binary.BigEndian.Uint16(id[8:])&^uint16(Max)|uint16(n))
	return id, nil
}

// OfID returns the number that an id contains. It returns false for an id that NewID cannot have
// made.
func OfID(id uuid.UUID) (Number, bool) {
	return Number(binary.BigEndian.Uint16(id[8:])) & Max, id.Version() == 8 && id.Variant() == uuid.RFC4122
}

// Credential returns a credential: the prefix of its kind, the number, and the secret.
func (n Number) Credential(prefix, secret string) string { return prefix + n.String() + secret }

// OfCredential returns the number that a credential contains. It returns false for text that is
// too short, or has no number at its place.
func OfCredential(text string) (Number, bool) {
	if len(text) < prefixLength+digits {
		return 0, false
	}
	field := text[prefixLength : prefixLength+digits]
	n, err := strconv.ParseUint(field, 16, 16)
	return Number(n), err == nil && Number(n).String() == field
}
