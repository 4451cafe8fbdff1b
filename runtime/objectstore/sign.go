package objectstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// requestSigner signs requests without a query and a body: AWS Signature Version 4, as minio-go
// does. It keeps the signing key, which is the same for a day.
type requestSigner struct {
	region  string
	current atomic.Pointer[signingKey]
}

// signingKey is the key that is derived from a secret key for one day and region.
type signingKey struct {
	secret, day string
	key         []byte
}

// signedHeader is a header that the signature covers; its name is in lower case, its value has no
// spaces that the canonical form would remove.
type signedHeader struct{ name, value string }

const (
	signatureAlgorithm = "AWS4-HMAC-SHA256"
	signatureTime      = "20060102T150405Z"
	// emptyHash is the SHA-256 of an empty body.
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// sign adds headers, and those of the signature, to a request.
func (s *requestSigner) sign(request *http.Request, keys credentials.Value, headers []signedHeader, now time.Time) {
	stamp := now.UTC().Format(signatureTime)
	day := stamp[:8]
	headers = append(headers, signedHeader{"x-amz-content-sha256", emptyHash}, signedHeader{"x-amz-date", stamp})
	if keys.SessionToken != "" {
		headers = append(headers, signedHeader{"x-amz-security-token", keys.SessionToken})
	}
	for _, header := range headers {
		request.Header.Set(header.name, header.value)
	}
	headers = append(headers, signedHeader{"host", request.Host})
	slices.SortFunc(headers, func(a, b signedHeader) int { return strings.Compare(a.name, b.name) })

	var canonical, names strings.Builder
	canonical.WriteString(request.Method + "\n" + request.URL.EscapedPath() + "\n\n")
	for i, header := range headers {
		if i > 0 {
			names.WriteByte(';')
		}
		names.WriteString(header.name)
		canonical.WriteString(header.name + ":" + header.value + "\n")
	}
	canonical.WriteString("\n" + names.String() + "\n" + emptyHash)

	scope := day + "/" + s.region + "/s3/aws4_request"
	hash := sha256.Sum256([]byte(canonical.String()))
	signature := keyedHash(s.key(keys.SecretAccessKey, day), signatureAlgorithm+"\n"+stamp+"\n"+scope+"\n"+hex.EncodeToString(hash[:]))
	request.Header["Authorization"] = []string{signatureAlgorithm + " Credential=" + keys.AccessKeyID + "/" + scope +
		", SignedHeaders=" + names.String() + ", Signature=" + hex.EncodeToString(signature)}
}

// key returns the signing key of a day.
func (s *requestSigner) key(secret, day string) []byte {
	if known := s.current.Load(); known != nil && known.day == day && known.secret == secret {
		return known.key
	}
	key := []byte("AWS4" + secret)
	for _, part := range []string{day, s.region, "s3", "aws4_request"} {
		key = keyedHash(key, part)
	}
	s.current.Store(&signingKey{secret: secret, day: day, key: key})
	return key
}

// keyedHash returns HMAC-SHA256.
func keyedHash(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
