package cdnclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"mediastack.dev/runtime/internal/answer"
)

// envelope is the answer of Cloudflare's API (https://developers.cloudflare.com/fundamentals/api/reference/making-api-calls/).
type envelope struct {
	Success bool `json:"success"`
	Errors  []struct {
		Code int `json:"code"`
	} `json:"errors"`
}

// maxCodes is how many codes of an answer an error names.
const maxCodes = 3

// cloudflareProblem returns why an answer of Cloudflare accepts no purge; empty = it does. It names the codes of errors, not their messages,
// which may quote the request.
func cloudflareProblem(response *http.Response) string {
	body, err := io.ReadAll(io.LimitReader(response.Body, answer.MaxBody+1))
	var said envelope
	switch {
	case err == nil && len(body) > answer.MaxBody:
		err = fmt.Errorf("more than %d bytes", answer.MaxBody)
	case err == nil:
		err = json.NewDecoder(bytes.NewReader(body)).Decode(&said)
	}
	accepted := response.StatusCode/100 == 2
	switch {
	case accepted && err != nil:
		return "answered " + describe(response.StatusCode) + ", but not with the JSON that says success"
	case accepted && said.Success:
		return ""
	}
	problem := "answered " + describe(response.StatusCode)
	if accepted {
		problem += ", but without success"
	}
	for i, each := range said.Errors[:min(maxCodes, len(said.Errors))] {
		if i == 0 {
			problem += ", code"
		} else {
			problem += ","
		}
		problem += fmt.Sprintf(" %d", each.Code)
	}
	return problem
}
