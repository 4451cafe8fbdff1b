// Package exchange sends the requests of tenants and reads the whole answers. Tests, benchmarks and the runs under
// faults use it.
package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
)

// Answer is a whole response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends a request. header is a list of names and values; one without a value is not sent.
func Send(ctx context.Context, client *http.Client, method, url string, body io.Reader, header ...string) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] != "" {
			request.Header.Set(header[i], header[i+1])
		}
	}
	return Do(client, request)
}

// Do sends a request that was made elsewhere.
func Do(client *http.Client, request *http.Request) (Answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, body}, err
}

// Expect is Send for an answer that must have a status.
func Expect(ctx context.Context, client *http.Client, status int, method, url string, body io.Reader, header ...string) (Answer, error) {
	got, err := Send(ctx, client, method, url, body, header...)
	if err == nil && got.Status != status {
		err = fmt.Errorf("%s %s is answered %d: %.300s", method, url, got.Status, got.Body)
	}
	return got, err
}

// Form returns the body of an upload, and its type. fields are names and values.
func Form(name string, data []byte, fields ...string) (body []byte, contentType string) {
	var form bytes.Buffer // writing to it never fails
	writer := multipart.NewWriter(&form)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = writer.WriteField(fields[i], fields[i+1])
	}
	part, _ := writer.CreateFormFile("file", name)
	_, _ = part.Write(data)
	_ = writer.Close()
	return form.Bytes(), writer.FormDataContentType()
}
