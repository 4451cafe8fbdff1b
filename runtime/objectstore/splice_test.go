package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/splice"
)

func newPipe(t *testing.T) *splice.Pipe {
	t.Helper()
	pipe, err := splice.New()
	must(t, err)
	return pipe
}

// readByPipe reads a body into the buffer of a pipe. It returns its bytes, and how many of them were in the pipe.
func readByPipe(body io.Reader, pipe *splice.Pipe) (data []byte, held int, err error) {
	var all bytes.Buffer
	for {
		n, err := body.Read(pipe.Buffer())
		switch in := pipe.Held(); {
		case in == 0:
			all.Write(pipe.Buffer()[:n])
		case in != n:
			return nil, 0, fmt.Errorf("the pipe holds %d of %d bytes", in, n)
		default:
			_, _ = io.Copy(&all, pipe)
			held += n
		}
		if errors.Is(err, io.EOF) {
			return all.Bytes(), held, nil
		}
		if err != nil {
			return all.Bytes(), held, err
		}
	}
}

func TestOpen_FillsAPipe(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		data := make([]byte, 5<<20+17)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
		put(t, store, bucket, "media/x", "image/png", data)
		pipe := newPipe(t)
		defer pipe.Release()
		ctx := splice.WithPipe(t.Context(), pipe)
		for _, c := range []struct {
			offset, length int64
			fills          bool
		}{{0, -1, true}, {12345, 2 << 20, true}, {12345, splice.MinLength - 1, false}, {0, 10, false}} {
			body, err := store.Open(ctx, bucket, "media/x", c.offset, c.length)
			must(t, err)
			got, held, err := readByPipe(body, pipe)
			must(t, err)
			must(t, body.Close())
			want := data[c.offset:]
			if c.length >= 0 {
				want = want[:c.length]
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%+v: %d other bytes", c, len(got))
			}
			if c.fills != (held > len(want)/2) || !c.fills && held > 0 {
				t.Errorf("%+v: %d of %d bytes were in the pipe", c, held, len(want))
			}
			// The connection serves another request, which has no pipe, though it uses the buffer.
			other, err := store.Open(t.Context(), bucket, "media/x", 0, 3<<20)
			must(t, err)
			got, held, err = readByPipe(other, pipe)
			must(t, err)
			must(t, other.Close())
			if !bytes.Equal(got, data[:3<<20]) || held != 0 {
				t.Errorf("%+v: the next request has %d bytes, of which %d were in the pipe", c, len(got), held)
			}
		}
		// A reader with a buffer of its own gets the bytes.
		body, err := store.Open(ctx, bucket, "media/x", 0, -1)
		must(t, err)
		got, err := io.ReadAll(body)
		must(t, err)
		must(t, body.Close())
		if !bytes.Equal(got, data) || pipe.Held() != 0 {
			t.Errorf("another buffer: %d bytes, %d are in the pipe", len(got), pipe.Held())
		}
	})
}

// The length of the pieces is in the body of such a response: net/http must see it.
func TestOpen_ABodyInChunksFillsNoPipe(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	store := open(t, testenv.S3Proxy(t, testenv.S3(t), func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/chunks") {
			return false
		}
		_ = http.NewResponseController(w).Flush() // without a length
		_, _ = w.Write(data)
		return true
	}))
	pipe := newPipe(t)
	defer pipe.Release()
	body, err := store.Open(splice.WithPipe(t.Context(), pipe), "bucket", "media/chunks", 0, -1)
	must(t, err)
	got, held, err := readByPipe(body, pipe)
	must(t, err)
	must(t, body.Close())
	if !bytes.Equal(got, data) || held != 0 {
		t.Errorf("%d bytes, of which %d were in the pipe", len(got), held)
	}
}

func TestOpen_APipeOfAStoreThatEndsOrHangsIsUnavailable(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	proxy := testenv.NewTCPProxy(t, strings.TrimPrefix(access.Endpoint, "http://"))
	access.Endpoint = "http://" + proxy.String()
	store := openSilent(t, access)
	bucket, _ := claimed(t, store)
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // more than all buffers can hold
	put(t, store, bucket, "media/x", "text/plain", data)
	for _, mode := range []testenv.ProxyMode{testenv.ProxyStall, testenv.ProxyCut} {
		pipe := newPipe(t)
		ctx, cancel := context.WithCancel(splice.WithPipe(t.Context(), pipe))
		body, err := store.Open(ctx, bucket, "media/x", 0, -1)
		must(t, err)
		_, err = io.ReadFull(body, make([]byte, 1000))
		must(t, err)
		proxy.Set(mode)
		rest, held, err := readByPipe(body, pipe)
		if !fault.Is(err, fault.Unavailable) || !bytes.Equal(rest, data[1000:1000+len(rest)]) || held == 0 {
			t.Errorf("%v: %d bytes, %d in the pipe, %v", mode, len(rest), held, err)
		}
		must(t, body.Close())
		cancel()
		pipe.Release()
		proxy.Set(testenv.ProxyOpen)
	}
}
