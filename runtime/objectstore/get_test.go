package objectstore

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
)

var must = check.NoError

// recorder is a transport that records the last request.
type recorder struct{ last *http.Request }

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.last = request
	status, header := http.StatusOK, ""
	if span := request.Header.Get("Range"); span != "" {
		status, header = http.StatusPartialContent, strings.Replace(span, "=", " ", 1)+"/100"
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("")), Request: request,
		Header: http.Header{"Last-Modified": {"Sun, 22 Nov 2026 17:21:02 GMT"}, "Content-Length": {"0"}, "Content-Range": {header}}}, nil
}

// A cache in front of the store may answer a range by the whole object, or by another range. Its bytes
// were served as those of the range.
func TestCheckRange_RejectsOtherBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		span   string
		status int
		header string
		good   bool
	}{
		{"", http.StatusOK, "", true},
		{"bytes=10-59", http.StatusPartialContent, "bytes 10-59/100", true},
		{"bytes=10-59", http.StatusPartialContent, "bytes 10-59/*", true},
		{"bytes=10-", http.StatusPartialContent, "bytes 10-99/100", true},
		{"", http.StatusPartialContent, "bytes 0-9/100", false},
		{"bytes=10-59", http.StatusOK, "", false},
		{"bytes=10-59", http.StatusPartialContent, "", false},
		{"bytes=10-59", http.StatusPartialContent, "bytes 1-59/100", false},
		{"bytes=1-59", http.StatusPartialContent, "bytes 10-59/100", false},
	} {
		err := checkRange(&http.Response{StatusCode: c.status, Header: http.Header{"Content-Range": {c.header}}}, c.span)
		if (err == nil) != c.good || err != nil && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%q answered by %d %q: %v", c.span, c.status, c.header, err)
		}
	}
}

func TestDirectGet_SendsWhatMinIOSends(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{
		"http://127.0.0.1:9000", "http://127.0.0.1:80", "http://[::1]:80", "https://s3.example.org", "https://s3.example.org:443", "https://s3.example.org:8443",
		"https://s3.amazonaws.com", "https://s3.eu-central-1.amazonaws.com", "https://s3-fips.us-west-2.amazonaws.com", "https://storage.googleapis.com", "https://oss-cn-hangzhou.aliyuncs.com",
	} {
		for _, bucket := range []string{"media-bucket", "media.bucket", "b-0199c3a1-7c5e-7d0e-8f2a-000000000000"} {
			for _, span := range []string{"", "bytes=10-59", "bytes=5-"} {
				u, err := url.Parse(endpoint)
				must(t, err)
				static := credentials.Value{AccessKeyID: "id", SecretAccessKey: "secret", SessionToken: "session"}
				mine, theirs := &recorder{}, &recorder{}
				direct, err := newDirectGet(Config{Region: "eu-central-1"}, u, mine, func() (credentials.Value, bool) { return static, true })
				must(t, err)
				client, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4("id", "secret", "session"), Secure: u.Scheme == "https", Region: "eu-central-1", Transport: theirs})
				must(t, err)
				core := &minio.Core{Client: client}
				if _, err := getWith(t.Context(), core, bucket, "media/a b/ä", span); err != nil {
					t.Fatal(err)
				}
				at, err := time.Parse(signatureTime, theirs.last.Header.Get("X-Amz-Date"))
				must(t, err)
				direct.now = func() time.Time { return at }
				if _, err := direct.open(t.Context(), bucket, "media/a b/ä", span); err != nil {
					t.Fatal(err)
				}
				if got, want := mine.last.URL.String(), theirs.last.URL.String(); got != want || mine.last.Host != theirs.last.Host {
					t.Errorf("%s, %s: requested %s, minio-go %s", endpoint, bucket, got, want)
				}
				for _, header := range []string{"Authorization", "Range", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
					if got, want := mine.last.Header.Get(header), theirs.last.Header.Get(header); got != want {
						t.Errorf("%s, %s: %s is %s, of minio-go %s", endpoint, bucket, header, got, want)
					}
				}
			}
		}
	}
}

func TestRangeOf_NamesTheBytes(t *testing.T) {
	t.Parallel()
	for want, span := range map[string][2]int64{"": {0, -1}, "bytes=0-0": {0, 1}, "bytes=10-59": {10, 50}, "bytes=7-": {7, -1}} {
		if got, err := rangeOf(span[0], span[1]); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", span, got, err, want)
		}
	}
	if _, err := rangeOf(-1, 5); err == nil {
		t.Error("a negative offset was accepted")
	}
}
