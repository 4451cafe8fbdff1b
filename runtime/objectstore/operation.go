package objectstore

import (
	"net/http"
	"net/url"
	"strings"
)

// operationOf returns the name that the S3 API has for a request to an endpoint with this host, or
// "other".
func operationOf(request *http.Request, host string) string {
	_, key, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	if request.URL.Host != host { // the bucket is in the host
		key = strings.TrimPrefix(request.URL.Path, "/")
	}
	resource := "bucket"
	if key != "" {
		resource = "object"
	}
	query, _ := url.ParseQuery(request.URL.RawQuery)
	for _, parameter := range []string{"uploadId", "uploads", "delete", "location", "versioning", "versions"} {
		if query.Has(parameter) {
			resource = parameter
			break
		}
	}
	if name, known := operations[resource][request.Method]; known {
		return name
	}
	return "other"
}

// operations has the names of the S3 operations by what they act on and by method.
var operations = map[string]map[string]string{
	"object":     {http.MethodPut: "PutObject", http.MethodGet: "GetObject", http.MethodHead: "HeadObject", http.MethodDelete: "DeleteObject"},
	"bucket":     {http.MethodPut: "CreateBucket", http.MethodGet: "ListObjectsV2", http.MethodHead: "HeadBucket", http.MethodDelete: "DeleteBucket"},
	"uploadId":   {http.MethodPut: "UploadPart", http.MethodPost: "CompleteMultipartUpload", http.MethodGet: "ListParts", http.MethodDelete: "AbortMultipartUpload"},
	"uploads":    {http.MethodPost: "CreateMultipartUpload", http.MethodGet: "ListMultipartUploads"},
	"delete":     {http.MethodPost: "DeleteObjects"},
	"location":   {http.MethodGet: "GetBucketLocation"},
	"versioning": {http.MethodGet: "GetBucketVersioning", http.MethodPut: "PutBucketVersioning"},
	"versions":   {http.MethodGet: "ListObjectVersions"},
}
