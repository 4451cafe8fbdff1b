package mcptasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/runtime/account"
)

// Stack is a running service, in which each task has an account of its own.
type Stack struct {
	BaseURL, Database string
	Access            servers.S3Access
	// RemoteURL is another server, from which the service may download /report.pdf.
	RemoteURL string
}

// remoteFile is the file of the other server.
const remoteFile = "%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n"

// Remote serves the files that tasks have the service download.
var Remote = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/report.pdf" {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, remoteFile)
})

// policy returns the tool policy of the account of a task.
func (t Task) policy() account.ToolPolicy {
	policy := account.ToolPolicy{ReadOnly: t.ReadOnly, Toolsets: append([]string{account.ToolsetCore}, t.Toolsets...)}
	for _, change := range t.Approval {
		switch change {
		case "delete":
			policy.Approval.Delete = account.RuleAlways
		case "publish":
			policy.Approval.Publish = account.RuleAlways
		case "settings":
			policy.Approval.Settings = account.RuleAlways
		}
	}
	return policy
}

// prepare makes the account of a task and its items, and returns its key and what the task knows.
func (s Stack) prepare(ctx context.Context, task Task) (key string, known values, err error) {
	tenants, err := provision.Accounts(ctx, s.Database, s.Access, account.Spec{Namespace: "tasks", Name: task.Name + "-" + servers.RandomSecret(4), DisplayName: "The studio", Owners: []string{"owner@people.example"},
		MaxStorage: 1 << 30, MaxUploadSize: 256 << 20, Undo: account.Undo{Window: time.Hour, For: account.UndoEveryone}, Journal: 24 * time.Hour, ToolPolicy: task.policy()})
	if err != nil {
		return "", nil, err
	}
	key = tenants[0].APIKey
	known = values{"today": time.Now().UTC().Format(time.DateOnly), "remote": s.RemoteURL}
	for _, given := range task.Given {
		if known[given.As], err = s.give(ctx, key, given); err != nil {
			return "", nil, fmt.Errorf("the given item %s: %w", given.As, err)
		}
	}
	return key, known, nil
}

// give makes an item by REST: programs with the key pass no guard.
func (s Stack) give(ctx context.Context, key string, given Given) (id string, err error) {
	file, err := given.content()
	if err != nil {
		return "", err
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	fields := map[string]string{"caption": given.Caption, "group": given.Group, "access": given.Access}
	if len(given.Metadata) > 0 {
		text, err := json.Marshal(given.Metadata)
		if err != nil {
			return "", err
		}
		fields["metadata"] = string(text)
	}
	for name, value := range fields {
		if value != "" {
			if err := w.WriteField(name, value); err != nil {
				return "", err
			}
		}
	}
	part, err := w.CreateFormFile("file", given.File)
	if err != nil {
		return "", err
	}
	if _, err := part.Write(file); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	var made struct{ MediaID string }
	if err := send(ctx, http.MethodPost, s.BaseURL+"/media/create", key, w.FormDataContentType(), &form, &made); err != nil {
		return "", err
	}
	if given.State != draft {
		if err := send(ctx, http.MethodPost, s.BaseURL+"/media/seal/"+made.MediaID, key, "", nil, nil); err != nil {
			return "", err
		}
	}
	if given.State == deleted {
		if err := send(ctx, http.MethodDelete, s.BaseURL+"/media/delete/"+made.MediaID, key, "", nil, nil); err != nil {
			return "", err
		}
	}
	return made.MediaID, nil
}

// content returns the bytes of a given item.
func (g Given) content() ([]byte, error) {
	if g.Image == "" {
		size := max(g.Bytes, 40)
		return bytes.Repeat([]byte(g.As+" "), size/(len(g.As)+1)+1)[:size], nil
	}
	rgb, err := strconv.ParseUint(strings.TrimPrefix(g.Image, "#"), 16, 32)
	if err != nil {
		return nil, err
	}
	picture := image.NewRGBA(image.Rect(0, 0, g.Width, g.Height))
	for y := range g.Height {
		for x := range g.Width {
			picture.Set(x, y, color.RGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 255})
		}
	}
	var out bytes.Buffer
	err = jpeg.Encode(&out, picture, nil)
	return out.Bytes(), err
}

// send sends a request with the key; an empty key is left out.
func send(ctx context.Context, method, address, key, contentType string, body io.Reader, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	if key != "" {
		request.Header.Set("X-Service-Apikey", key)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %d %s", method, address, response.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// upload is what the user does on the page of a request: it sends a file by the address for programs, which does the same.
func upload(ctx context.Context, address string) error {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "holiday.txt")
	if err == nil {
		_, err = io.WriteString(part, "a file of the user")
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return send(ctx, http.MethodPost, address, "", w.FormDataContentType(), &form, nil)
}

// Migrate prepares the database.
func (s Stack) Migrate(ctx context.Context) error {
	_, err := provision.Accounts(ctx, s.Database, s.Access)
	return err
}
