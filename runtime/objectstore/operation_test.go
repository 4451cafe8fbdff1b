package objectstore

import (
	"net/http"
	"testing"
)

func TestOperation_HasTheNameOfTheAPI(t *testing.T) {
	t.Parallel()
	for want, requests := range map[string][][2]string{
		"PutObject":               {{http.MethodPut, "http://s3.example.org/media/a/b"}, {http.MethodPut, "http://media.s3.example.org/a"}},
		"GetObject":               {{http.MethodGet, "http://s3.example.org/media/a"}},
		"HeadObject":              {{http.MethodHead, "http://media.s3.example.org/a"}},
		"DeleteObject":            {{http.MethodDelete, "http://s3.example.org/media/a"}},
		"CreateBucket":            {{http.MethodPut, "http://s3.example.org/media/"}},
		"HeadBucket":              {{http.MethodHead, "http://s3.example.org/media"}, {http.MethodHead, "http://media.s3.example.org/"}},
		"ListObjectsV2":           {{http.MethodGet, "http://s3.example.org/media/?list-type=2&prefix=a"}},
		"DeleteObjects":           {{http.MethodPost, "http://s3.example.org/media/?delete="}},
		"CreateMultipartUpload":   {{http.MethodPost, "http://s3.example.org/media/a?uploads="}},
		"UploadPart":              {{http.MethodPut, "http://s3.example.org/media/a?partNumber=1&uploadId=x"}},
		"CompleteMultipartUpload": {{http.MethodPost, "http://s3.example.org/media/a?uploadId=x"}},
		"AbortMultipartUpload":    {{http.MethodDelete, "http://s3.example.org/media/a?uploadId=x"}},
		"other":                   {{http.MethodPatch, "http://s3.example.org/media/a"}},
	} {
		for _, sent := range requests {
			request, err := http.NewRequestWithContext(t.Context(), sent[0], sent[1], nil)
			must(t, err)
			if got := operationOf(request, "s3.example.org"); got != want {
				t.Errorf("%s %s is %s, not %s", sent[0], sent[1], got, want)
			}
		}
	}
}
