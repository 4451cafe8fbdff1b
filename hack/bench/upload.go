package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
)

// result holds files a second, round by round.
type result struct{ rest, bare, ratios []float64 }

// compare measures both sides in turn, with one round of each before that does not count.
func (r *rig) compare(ctx context.Context, o options, size int) (result, error) {
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		return result{}, err
	}
	body, contentType, err := form(data)
	if err != nil {
		return result{}, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Clients, MaxConnsPerHost: o.Clients}}
	rest := func(ctx context.Context, _ int64) error { return r.create(ctx, client, body, contentType) }
	bare := func(ctx context.Context, n int64) error {
		_, err := r.bare.PutObject(ctx, r.bucket, fmt.Sprintf("bare/%d/%d", size, n), bytes.NewReader(data), int64(size),
			minio.PutObjectOptions{DisableContentSha256: true})
		return err
	}
	var found result
	for round := range o.Rounds + 1 {
		viaREST, err := rate(ctx, o, rest)
		if err != nil {
			return result{}, err
		}
		direct, err := rate(ctx, o, bare)
		if err != nil {
			return result{}, err
		}
		if round > 0 {
			found.rest, found.bare, found.ratios = append(found.rest, viaREST), append(found.bare, direct), append(found.ratios, viaREST/direct)
		}
	}
	return found, nil
}

// form is a whole multipart body, made once, so that the client's own work is small.
func form(data []byte) (body []byte, contentType string, err error) {
	var buffer bytes.Buffer
	writer := multipart.NewWriter(&buffer)
	part, err := writer.CreateFormFile("file", "bench.bin")
	if err != nil {
		return nil, "", err
	}
	if _, err := part.Write(data); err != nil {
		return nil, "", err
	}
	if err := writer.Close(); err != nil {
		return nil, "", err
	}
	return buffer.Bytes(), writer.FormDataContentType(), nil
}

func (r *rig) create(ctx context.Context, client *http.Client, body []byte, contentType string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.baseURL+"/media/create", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("x-service-apikey", r.apiKey)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated {
		return fmt.Errorf("the upload was answered %s: %s", response.Status, answer)
	}
	return nil
}

// rate keeps o.Clients calls in flight for o.Length and gives how many ended in a second.
func rate(ctx context.Context, o options, call func(ctx context.Context, n int64) error) (float64, error) {
	var started, done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	start := time.Now()
	for range o.Clients {
		all.Go(func() {
			for time.Since(start) < o.Length && failed.Load() == nil && ctx.Err() == nil {
				if err := call(ctx, started.Add(1)); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(start).Seconds(), ctx.Err()
}
