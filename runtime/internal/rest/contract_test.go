package rest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/runtimetest"
)

// contract is the parsed OpenAPI document.
type contract struct {
	document *openapi3.T
	paths    chi.Router
}

func loadContract(t *testing.T) *contract {
	t.Helper()
	source, err := api.RenderSpec(baseURL, "service")
	must(t, err)
	document, err := openapi3.NewLoader().LoadFromData(source)
	must(t, err)
	must(t, document.Validate(t.Context()))
	c := &contract{document: document, paths: chi.NewRouter()}
	for _, o := range c.operations() {
		c.paths.MethodFunc(o.method, o.path, func(http.ResponseWriter, *http.Request) {})
	}
	return c
}

// operation is an operation of the document.
type operation struct{ method, path string }

func (o operation) String() string { return o.method + " " + o.path }

func (c *contract) operations() []operation {
	var all []operation
	for path, item := range c.document.Paths.Map() {
		for method := range item.Operations() {
			all = append(all, operation{method, path})
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	return all
}

// validatingTransport fails the test if a response does not match the document.
type validatingTransport struct {
	t        *testing.T
	contract *contract
	next     http.RoundTripper
}

// newClient returns a client that validates every JSON response.
func newClient(t *testing.T, address, brand string) *http.Client {
	t.Helper()
	next := runtimetest.Dialer(address)
	t.Cleanup(next.CloseIdleConnections)
	if brand != "service" {
		return &http.Client{Transport: next}
	}
	return &http.Client{Transport: validatingTransport{t: t, contract: loadContract(t), next: next}, Timeout: 2 * wait.Timeout(t)}
}

// RoundTrip sends the request and validates the response.
func (j validatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := j.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	match := chi.NewRouteContext()
	if !j.contract.paths.Match(match, r.Method, r.URL.EscapedPath()) {
		return response, nil
	}
	pattern := match.RoutePattern()
	operation := j.contract.document.Paths.Value(pattern).GetOperation(r.Method)
	if response.Header.Get("Content-Type") != "application/json" {
		// The document describes only the status of a file.
		if operation.Responses.Value(fmt.Sprint(response.StatusCode)) == nil {
			j.t.Errorf("%s %s answered %d, which is not described", r.Method, pattern, response.StatusCode)
		}
		return response, nil
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return response, nil // the test reads the same error
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: r, Route: &routers.Route{Spec: j.contract.document, Path: pattern, PathItem: j.contract.document.Paths.Value(pattern),
				Method: r.Method, Operation: operation},
		},
		Status: response.StatusCode, Header: response.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(r.Context(), input.SetBodyBytes(body)); err != nil {
		j.t.Errorf("%s %s answered %d, which is not as described: %v\n%s", r.Method, pattern, response.StatusCode, err, body)
	}
	return response, nil
}

// routesOf returns the routes of a router.
func routesOf(t *testing.T, mounts ...func(chi.Router)) []operation {
	t.Helper()
	router := chi.NewRouter()
	for _, mount := range mounts {
		mount(router)
	}
	var served []operation
	must(t, chi.Walk(router, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, operation{method, path})
		return nil
	}))
	slices.SortFunc(served, func(a, b operation) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	return served
}

// The API reference shows the example of an error. Without one it shows the first code of all.
func TestErrorExamples_HaveTheCodeOfTheirStatus(t *testing.T) {
	t.Parallel()
	document := loadContract(t).document
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				content := response.Value.Content.Get("application/json")
				number, err := strconv.Atoi(status)
				must(t, err)
				if number < http.StatusBadRequest || content == nil {
					continue
				}
				example, _ := content.Example.(map[string]any)
				want := httpapi.DescribeStatus(number, fault.New(fault.Invalid, "")).Body
				if code := example["code"]; code != string(want.Code) && (code != "invalid_signature" || number != http.StatusForbidden) {
					t.Errorf("%s %s, %s: the example is %v, want the code %s", method, path, status, example, want.Code)
				}
			}
		}
	}
}

func TestRoutes_MatchTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	served := routesOf(t, (&rest.API{}).Mount, (&delivery.Delivery{}).Mount)
	described := loadContract(t).operations()
	for _, route := range served {
		if !slices.Contains(described, route) {
			t.Errorf("%s is served and has no entry in openapi.yaml", route)
		}
	}
	for _, entry := range described {
		if !slices.Contains(served, entry) {
			t.Errorf("%s is described and not served", entry)
		}
	}
}
