package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// proofVersion begins every proof, and proofDomain the input of its MAC.
const (
	proofVersion = "v1"
	proofDomain  = "mediastack api key proof " + proofVersion
)

// ProofKey is the secret of an installation with which it proves that it issued a key: the
// database may have lost the record of a key that is in a Secret. It is not hashed at rest,
// because every proof is computed with it. It is printed and logged as a fixed word.
type ProofKey struct{ secret [sha256.Size]byte }

// NewProofKey returns the key with these 32 bytes.
func NewProofKey(secret []byte) (ProofKey, error) {
	if len(secret) != sha256.Size {
		return ProofKey{}, fmt.Errorf("the proof key has %d bytes, not %d", len(secret), sha256.Size)
	}
	return ProofKey{secret: [sha256.Size]byte(secret)}, nil
}

// Sign returns the proof that key was issued for an app of an account:
// "v1.<sequence>.<generation>.<base64url of the MAC>".
func (k ProofKey) Sign(accountID uuid.UUID, app string, key Key) string {
	mac := k.mac(accountID, app, key.Sequence, key.Generation, key.Hash)
	return fmt.Sprintf("%s.%d.%d.%s", proofVersion, key.Sequence, key.Generation, base64.RawURLEncoding.EncodeToString(mac))
}

// Verify reports whether proof is the one of a key with this hash, and returns the sequence number
// and the generation that it proves.
func (k ProofKey) Verify(proof string, accountID uuid.UUID, app string, hash Hash) (sequence, generation int64, ok bool) {
	fields := strings.Split(proof, ".")
	if len(fields) != 4 || fields[0] != proofVersion || k == (ProofKey{}) {
		return 0, 0, false
	}
	sequence, sequenceErr := strconv.ParseInt(fields[1], 10, 64)
	generation, generationErr := strconv.ParseInt(fields[2], 10, 64)
	mac, macErr := base64.RawURLEncoding.Strict().DecodeString(fields[3])
	if sequenceErr != nil || generationErr != nil || macErr != nil || !hmac.Equal(mac, k.mac(accountID, app, sequence, generation, hash)) {
		return 0, 0, false
	}
	return sequence, generation, true
}

// mac returns the MAC over fields of fixed length, with the length of the app's name before it, so
// that no two keys have the same input.
func (k ProofKey) mac(accountID uuid.UUID, app string, sequence, generation int64, hash Hash) []byte {
	input := append([]byte(proofDomain), accountID[:]...)
	input = binary.BigEndian.AppendUint64(input, uint64(len(app)))
	input = append(input, app...)
	input = binary.BigEndian.AppendUint64(input, uint64(sequence))   //nolint:gosec // the bits, whatever the sign
	input = binary.BigEndian.AppendUint64(input, uint64(generation)) //nolint:gosec // the bits, whatever the sign
	input = append(input, hash[:]...)
	code := hmac.New(sha256.New, k.secret[:])
	code.Write(input)
	return code.Sum(nil)
}

// String hides the key from %v and %s.
func (k ProofKey) String() string { return "(hidden)" }

// GoString hides the key from %#v.
func (k ProofKey) GoString() string { return k.String() }

// LogValue hides the key from slog.
func (k ProofKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText hides the key from encoders.
func (k ProofKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
