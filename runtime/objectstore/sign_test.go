package objectstore

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// signedByMinIO returns the headers of minio-go's signature, and the time in it.
func signedByMinIO(t *testing.T, target *url.URL, headers []signedHeader, keys credentials.Value, region string) (http.Header, time.Time) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.String(), http.NoBody)
	must(t, err)
	request.Header.Set("X-Amz-Content-Sha256", emptyHash)
	for _, header := range headers {
		request.Header.Set(header.name, header.value)
	}
	signed := signer.SignV4(*request, keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken, region)
	at, err := time.Parse(signatureTime, signed.Header.Get("X-Amz-Date"))
	must(t, err)
	return signed.Header, at
}

func TestSigner_SignsLikeMinIO(t *testing.T) {
	t.Parallel()
	static := credentials.Value{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	temporary := credentials.Value{AccessKeyID: "ASIAEXAMPLE", SecretAccessKey: "another secret", SessionToken: "FwoGZXIvYXdzEJr//////////wEaDH+/="}
	const etag = `"9b2cf535f27731c974343645a3985328"`
	for _, region := range []string{"us-east-1", "eu-central-1"} {
		signer := &requestSigner{region: region}
		for _, keys := range []credentials.Value{static, temporary, static} { // one signer: its key follows the secret
			for _, host := range []string{"s3.example.org", "s3.example.org:9000", "127.0.0.1:80", "[::1]:9000", "bucket.s3.dualstack.eu-central-1.amazonaws.com"} {
				for _, key := range []string{
					"media/0199c3a1-7c5e-7d0e-8f2a-000000000000/original", "_mediastack/owner.json", "a b+c&d=e?f#g%h", "ä/ö/日本", "~-_.!*'()", "a//b", "50%25", ",:;@$[]",
				} {
					for name, headers := range map[string][]signedHeader{
						"whole":       nil,
						"range":       {{"range", "bytes=0-0"}},
						"from":        {{"range", "bytes=1048576-"}},
						"to the end":  {{"range", "bytes=9-9223372036854775807"}},
						"conditional": {{"if-match", etag}, {"if-modified-since", "Sun, 22 Nov 2026 17:21:02 GMT"}},
						"both":        {{"range", "bytes=5-10"}, {"if-none-match", etag}, {"if-unmodified-since", "Sun, 22 Nov 2026 17:21:02 GMT"}},
					} {
						path := "/bucket/" + key
						target := &url.URL{Scheme: "http", Host: host, Path: path, RawPath: s3utils.EncodePath(path)}
						want, at := signedByMinIO(t, target, headers, keys, region)
						request := &http.Request{Method: http.MethodGet, URL: target, Host: host, Header: http.Header{}}
						signer.sign(request, keys, headers, at)
						for header := range want {
							if got := request.Header.Get(header); got != want.Get(header) {
								t.Errorf("%s %s %s, %s: %s is\n%s, of minio-go\n%s", region, host, key, name, header, got, want.Get(header))
							}
						}
						if len(request.Header) != len(want) {
							t.Errorf("headers %v, of minio-go %v", request.Header, want)
						}
					}
				}
			}
		}
	}
}

func TestSigner_KeepsTheKeyForADay(t *testing.T) {
	t.Parallel()
	signer := &requestSigner{region: "us-east-1"}
	first := signer.key("secret", "20261122")
	if again := signer.key("secret", "20261122"); &again[0] != &first[0] {
		t.Error("the key was derived again")
	}
	for _, other := range [][]byte{signer.key("secret", "20261123"), signer.key("other", "20261123"), (&requestSigner{region: "eu-west-1"}).key("secret", "20261122")} {
		if string(other) == string(first) {
			t.Error("another day, secret or region has the same key")
		}
	}
}
