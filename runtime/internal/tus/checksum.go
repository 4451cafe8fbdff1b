package tus

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // TUS requires this algorithm; it detects accidents only
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"

	"mediastack.dev/runtime/fault"
)

// checksumAlgorithms is the value of Tus-Checksum-Algorithm.
const checksumAlgorithms = "sha1,sha256"

// checksum verifies the bytes of one request.
type checksum struct {
	digest hash.Hash
	want   []byte
}

// readChecksum parses Upload-Checksum: an algorithm and a sum in base64. It returns nil
// without the header.
func readChecksum(values []string) (*checksum, error) {
	if len(values) == 0 {
		return nil, nil
	}
	algorithm, encoded, _ := strings.Cut(values[0], " ")
	sum := &checksum{}
	switch algorithm {
	case "sha1":
		sum.digest = sha1.New() //nolint:gosec // as above
	case "sha256":
		sum.digest = sha256.New()
	default:
		return nil, fault.New(fault.Invalid, "Upload-Checksum must be of one of %s", checksumAlgorithms)
	}
	var err error
	if sum.want, err = base64.StdEncoding.Strict().DecodeString(encoded); err != nil || len(sum.want) != sum.digest.Size() || len(values) > 1 {
		return nil, fault.New(fault.Invalid, "Upload-Checksum must be an algorithm, a space and the sum in base64, once")
	}
	return sum, nil
}

// verify returns errChecksumMismatch if the bytes have another sum.
func (s *checksum) verify() error {
	if !bytes.Equal(s.digest.Sum(nil), s.want) {
		return errChecksumMismatch
	}
	return nil
}
