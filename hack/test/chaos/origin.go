package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"mediastack.dev/hack/servers"
)

// origin is the server of the files that are uploaded from a URL. It is never broken: what it does wrong, the URL
// says.
type origin struct {
	*servers.Files
	pictures [][]byte
}

// The behaviours of the origin.
const (
	wholeFile = "whole"
	slowFile  = "slow"  // arrives in pieces over a second or two, so that kills meet it
	cutFile   = "cut"   // ends too early
	stuckFile = "stuck" // has no end
	noFile    = "none"  // 404
	imageFile = "image"
)

// startOrigin starts an origin whose certificate is in a file of dir.
func startOrigin(dir string, pictures [][]byte) (*origin, error) {
	o := &origin{pictures: pictures}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{kind}/{seed}/{size}", o.serve)
	var err error
	if o.Files, err = servers.StartFiles(dir, mux); err != nil {
		return nil, err
	}
	o.Settings = append(o.Settings, "SERVICE_FETCH_CONCURRENCY=6", "SERVICE_FETCH_PER_ACCOUNT=16", "SERVICE_FETCH_MAX_ATTEMPTS=4", "SERVICE_FETCH_CHECK_INTERVAL=200ms", "SERVICE_FETCH_STALL_TIMEOUT=3s")
	return o, nil
}

// address returns the URL of a file. The seed says which bytes it has; of an image, which picture it is.
func (o *origin) address(kind string, seed uint64, size int64) string {
	return fmt.Sprintf("%s/%s/%d/%d", o.URL, kind, seed, size)
}

// content returns the file of a URL.
func (o *origin) content(kind string, seed uint64, size int64) io.Reader {
	if kind == imageFile {
		return bytes.NewReader(o.pictures[seed%uint64(len(o.pictures))])
	}
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), byte(seed >> 32), byte(seed >> 40), byte(seed >> 48), byte(seed >> 56)}), size)
}

func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	seed, err := strconv.ParseUint(r.PathValue("seed"), 10, 64)
	size, sizeErr := strconv.ParseInt(r.PathValue("size"), 10, 64)
	if kind == noFile || err != nil || sizeErr != nil {
		http.NotFound(w, r)
		return
	}
	if seed%3 > 0 { // otherwise the size is not known before the end
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	file := o.content(kind, seed, size)
	switch kind {
	case slowFile:
		for range 10 {
			if _, err := io.CopyN(w, file, size/10); err != nil || !o.pause(w, r, 150*time.Millisecond) {
				return
			}
		}
	case cutFile:
		_, _ = io.CopyN(w, file, size/2)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case stuckFile:
		_, _ = io.CopyN(w, file, size/2)
		o.pause(w, r, time.Hour)
		return
	}
	_, _ = io.Copy(w, file)
}

// pause sends what was written, and waits; false if the client has gone.
func (o *origin) pause(w http.ResponseWriter, r *http.Request, length time.Duration) bool {
	_ = http.NewResponseController(w).Flush()
	select {
	case <-time.After(length):
		return true
	case <-r.Context().Done():
		return false
	}
}
