package objectstore_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

func TestStore_ReasonOfEachResponse(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	cases := map[string]struct {
		status int
		code   string // empty: no body
		want   fault.Reason
	}{
		"an unknown key":              {403, "InvalidAccessKeyId", fault.Credentials},
		"a wrong secret":              {403, "SignatureDoesNotMatch", fault.Credentials},
		"a missing permission":        {403, "AccessDenied", fault.Credentials},
		"an expired token":            {400, "ExpiredToken", fault.Credentials},
		"a malformed key":             {400, "AuthorizationHeaderMalformed", fault.Credentials},
		"a skewed clock":              {403, "RequestTimeTooSkewed", fault.Clock},
		"401 without a code":          {401, "", fault.Credentials},
		"403 without a code":          {403, "", fault.Credentials},
		"the quota of Ceph":           {403, "QuotaExceeded", fault.StoreFull},
		"the bucket limit":            {400, "TooManyBuckets", fault.StoreFull},
		"the full disk of MinIO":      {507, "XMinioStorageFull", fault.StoreFull},
		"507 without a code":          {507, "", fault.StoreFull},
		"a name that is not accepted": {400, "InvalidBucketName", fault.BucketName},
		"an internal error":           {500, "InternalError", ""},
		"slow down":                   {503, "SlowDown", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := between(t, access, func(w http.ResponseWriter, _ *http.Request) bool {
				if c.code == "" {
					w.WriteHeader(c.status)
				} else {
					s3Error(w, c.status, c.code)
				}
				return true
			})
			err := store.Put(t.Context(), "some-bucket", "media/x", "text/plain", strings.NewReader("x"), 1)
			got := fault.From(err)
			if got.Kind != fault.Unavailable || got.Reason != c.want || got.Public != "the object store can't be reached" {
				t.Errorf("%v is %s with reason %q, want unavailable with reason %q", err, got.Kind, got.Reason, c.want)
			}
			if c.want != "" && c.code != "" && got.Detail != "put media/x: "+c.code {
				t.Errorf("the detail is %q", got.Detail)
			}
		})
	}
}

func TestStore_WrongKeyIsNamed(t *testing.T) {
	t.Parallel()
	for name, access := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := access(t)
			wrong.SecretKey += "x"
			_, err := open(t, wrong).Owner(t.Context(), "some-bucket")
			if fault.ReasonOf(err) != fault.Credentials {
				t.Errorf("a wrong secret key gives %v", err)
			}
		})
	}
}

// rejection is an error of AWS, with what is not in all of them.
type rejection struct {
	status       int
	code         string
	message      string
	region       string // <Region> of the body
	regionHeader string
	withoutBody  bool // as every answer to HEAD
}

func (f rejection) write(w http.ResponseWriter, r *http.Request) {
	if f.regionHeader != "" {
		w.Header().Set("x-amz-bucket-region", f.regionHeader)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(f.status)
	if r.Method == http.MethodHead || f.withoutBody {
		return
	}
	region := ""
	if f.region != "" {
		region = "<Region>" + f.region + "</Region>"
	}
	_, _ = fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>%s</Code><Message>%s</Message>%s<RequestId>r</RequestId></Error>", f.code, f.message, region)
}

// A wrong region once was an outage that waiting would end, and a skewed clock a wrong key. The ping is a HEAD, whose answer says neither.
func TestStore_NamesAWrongRegionAndASkewedClock(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	const both = "SERVICE_S3_REGION is us-east-1, the store expects eu-central-1"
	for name, c := range map[string]struct {
		answer rejection
		want   fault.Reason
		says   string
		reject string // Rejection
	}{
		"a malformed header with the region": {rejection{status: 400, code: "AuthorizationHeaderMalformed", message: "m", region: "eu-central-1"}, fault.Region, both, "expects another region"},
		"a malformed header whose text has the region": {rejection{status: 400, code: "AuthorizationHeaderMalformed",
			message: "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-central-1'"}, fault.Region, both, "expects another region"},
		"a redirect":                            {rejection{status: 301, code: "PermanentRedirect", message: "m", regionHeader: "eu-central-1"}, fault.Region, both, "expects another region"},
		"a redirect that names no region":       {rejection{status: 301, code: "PermanentRedirect", message: "m"}, fault.Region, "SERVICE_S3_REGION is us-east-1", "expects another region"},
		"a redirect without a body":             {rejection{status: 301, withoutBody: true, regionHeader: "eu-central-1"}, fault.Region, both, "expects another region"},
		"a region with markup":                  {rejection{status: 301, code: "PermanentRedirect", message: "m", regionHeader: "eu central"}, fault.Region, "SERVICE_S3_REGION is us-east-1", "expects another region"},
		"a malformed header of the same region": {rejection{status: 400, code: "AuthorizationHeaderMalformed", message: "m", region: "us-east-1"}, fault.Credentials, "AuthorizationHeaderMalformed", "rejects the credentials"},
		"a skewed clock":                        {rejection{status: 403, code: "RequestTimeTooSkewed", message: "m"}, fault.Clock, "RequestTimeTooSkewed", "rejects the time of requests"},
		"a missing permission":                  {rejection{status: 403, code: "AccessDenied", message: "m"}, fault.Credentials, "AccessDenied", "rejects the credentials"},
		"an unknown key":                        {rejection{status: 403, code: "InvalidAccessKeyId", message: "m"}, fault.Credentials, "", "rejects the credentials"},
		"a wrong secret":                        {rejection{status: 403, code: "SignatureDoesNotMatch", message: "m"}, fault.Credentials, "", "rejects the credentials"},
		"a bad request":                         {rejection{status: 400, code: "InvalidRequest", message: "m"}, "", "", ""},
		"an internal error":                     {rejection{status: 500, code: "InternalError", message: "m"}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := between(t, access, func(w http.ResponseWriter, r *http.Request) bool { c.answer.write(w, r); return true })
			_, opened := store.Open(t.Context(), "some-bucket", "media/x", 0, -1)
			for what, err := range map[string]error{"ping": store.Ping(t.Context()), "get": opened,
				"put": store.Put(t.Context(), "some-bucket", "media/x", "text/plain", strings.NewReader("x"), 1)} {
				got := fault.From(err)
				if got.Kind != fault.Unavailable || got.Reason != c.want || !strings.Contains(got.Detail, c.says) || strings.Contains(got.Detail, "eu central") {
					t.Errorf("%s: %v has the reason %q and the detail %q", what, err, got.Reason, got.Detail)
				}
				if text := objectstore.Rejection(err); !strings.HasPrefix(text, c.reject) || (c.reject == "") != (text == "") {
					t.Errorf("%s: %q", what, text)
				}
			}
		})
	}
}

// The real stores reject another region.
func TestStore_WrongRegionIsNamed(t *testing.T) {
	t.Parallel()
	for name, access := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := access(t)
			right := wrong.Region
			wrong.Region = "mars-north-1"
			store := open(t, wrong)
			_, err := store.Owner(t.Context(), "some-bucket")
			for what, err := range map[string]error{"ping": store.Ping(t.Context()), "owner": err} {
				if got := fault.From(err); got.Reason != fault.Region || !strings.Contains(got.Detail, "SERVICE_S3_REGION is mars-north-1, the store expects "+right) {
					t.Errorf("%s: %v has the reason %q and the detail %q", what, err, got.Reason, got.Detail)
				}
			}
		})
	}
}
