package objectstore_test

import (
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
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
