package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/hack/setup"
)

// tusd is what tables call the tusd program with its own S3 store.
const tusd = "tusd"

// barePart is the length of the parts of bare multipart uploads: that of the service's.
const barePart = 16 << 20

// resumable compares the upload of a large file by one client with bare multipart uploads and with
// tusd.
func resumable(ctx context.Context, b *bench) error {
	t, e, err := b.serveTenant(ctx, "resumable")
	if err != nil {
		return err
	}
	other, err := b.env.serveTusd(ctx, t)
	if err != nil {
		return err
	}
	block := randomBytes(1 << 20)
	c := b.compare("upload", "ratio of MB/s", []string{"request size", "against", "TUS MB/s", "its MB/s"}, client, service, tusd, postgres, store)
	c.show = func(perSecond float64) string { return number(perSecond * float64(b.ResumableBytes) / 1e6) }
	for _, chunk := range []int64{8 << 20, 64 << 20} {
		f := resumableFile{block: block, size: b.ResumableBytes, chunk: chunk}
		sides := []side{
			b.resumableSide(t, e, f),
			{name: "minio-go", clients: 1, after: func(context.Context) error { return t.removeObjects("bare") }, call: func(ctx context.Context, n int64) error {
				return f.sendBare(ctx, b, t, fmt.Sprintf("bare/%d/original", n))
			}},
			{name: tusd, clients: 1, after: func(context.Context) error { return t.removeObjects(tusd) }, call: func(ctx context.Context, _ int64) error {
				id, err := f.send(ctx, other, "/files/")
				if err != nil {
					return err
				}
				key, _, _ := strings.Cut(id, "+") // the S3 upload's id follows
				return b.checkSize(ctx, t, tusd+"/"+key, f.size)
			}},
		}
		size := sizeName(int(chunk))
		var pairs []pair
		for i, wanted := range []*target{minimum(0.75), minimum(1)} {
			against := sides[i+1].name
			pairs = append(pairs, pair{against: i + 1, target: wanted, name: fmt.Sprintf("%s in %s, %s", sizeName(int(f.size)), size, against), cells: []string{size, against}})
		}
		if err := c.measure(ctx, size, load{clients: 1, rounds: b.Rounds, calls: 1}, sides, pairs...); err != nil {
			return err
		}
	}
	c.print()
	b.note("one client sends %s; the bare side sends parts of 16 MiB, one after the other; tusd has its own defaults", sizeName(int(b.ResumableBytes)))
	return nil
}

// resumableSide uploads a file with TUS.
func (b *bench) resumableSide(t tenant, e *endpoint, f resumableFile) side {
	return side{name: service, clients: 1, after: func(context.Context) error { return t.removeObjects("media") }, call: func(ctx context.Context, _ int64) error {
		return b.sendResumable(ctx, t, e, f)
	}}
}

func (b *bench) sendResumable(ctx context.Context, t tenant, e *endpoint, f resumableFile) error {
	id, err := f.send(ctx, e, "/media/create/resumable")
	if err != nil {
		return err
	}
	return b.checkSize(ctx, t, original(id), f.size)
}

// checkSize checks that an object exists and is complete.
func (b *bench) checkSize(ctx context.Context, t tenant, key string, size int64) error {
	stored, err := b.env.bare.StatObject(ctx, t.Account.Bucket, t.keyOf(key), minio.StatObjectOptions{})
	if err == nil && stored.Size != size {
		err = fmt.Errorf("%s has %d bytes of %d", key, stored.Size, size)
	}
	return err
}

// resumableFile is a file that is sent in several requests; it repeats a block of bytes.
type resumableFile struct {
	block       []byte
	size, chunk int64
}

// send uploads the file to a server that speaks TUS, and returns the upload's id.
func (f resumableFile) send(ctx context.Context, e *endpoint, collection string) (string, error) {
	do := func(method, address string, length int64, status int, header ...string) (http.Header, error) {
		request, err := http.NewRequestWithContext(ctx, method, address, &repeated{block: f.block, left: length})
		if err != nil {
			return nil, err
		}
		request.ContentLength = length
		request.Header.Set("Tus-Resumable", "1.0.0")
		request.Header.Set("x-service-apikey", e.key)
		for i := 0; i+1 < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := e.client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		output, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != status {
			err = fmt.Errorf("%s was answered %s: %.300s", method, response.Status, output)
		}
		return response.Header, err
	}
	made, err := do(http.MethodPost, e.baseURL+collection, 0, http.StatusCreated, "Upload-Length", strconv.FormatInt(f.size, 10))
	if err != nil {
		return "", err
	}
	address := made.Get("Location")
	for offset := int64(0); offset < f.size; {
		n := min(f.chunk, f.size-offset)
		answer, err := do(http.MethodPatch, address, n, http.StatusNoContent, "Upload-Offset", strconv.FormatInt(offset, 10), "Content-Type", "application/offset+octet-stream")
		if err != nil {
			return "", err
		}
		if offset += n; answer.Get("Upload-Offset") != strconv.FormatInt(offset, 10) {
			return "", fmt.Errorf("the offset is %s after %d bytes", answer.Get("Upload-Offset"), offset)
		}
	}
	return path.Base(address), nil
}

// sendBare uploads the file by a multipart upload.
func (f resumableFile) sendBare(ctx context.Context, b *bench, t tenant, key string) error {
	id, err := b.env.bare.NewMultipartUpload(ctx, t.Account.Bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	// In memory, as the service has it: a part that is sent again must be read again.
	part := make([]byte, barePart)
	body := &repeated{block: f.block, left: f.size}
	var parts []minio.CompletePart
	for body.left > 0 {
		n, err := io.ReadFull(body, part[:min(barePart, body.left)])
		if err != nil {
			return err
		}
		stored, err := b.env.bare.PutObjectPart(ctx, t.Account.Bucket, key, id, len(parts)+1, bytes.NewReader(part[:n]), int64(n), minio.PutObjectPartOptions{DisableContentSha256: true})
		if err != nil {
			return err
		}
		parts = append(parts, minio.CompletePart{PartNumber: len(parts) + 1, ETag: stored.ETag})
	}
	if _, err := b.env.bare.CompleteMultipartUpload(ctx, t.Account.Bucket, key, id, parts, minio.PutObjectOptions{}); err != nil {
		return err
	}
	return b.checkSize(ctx, t, key, f.size)
}

// serveTusd starts tusd with its own S3 store, in a tenant's bucket.
func (env *environment) serveTusd(ctx context.Context, t tenant) (*endpoint, error) {
	program, err := setup.FindTusd()
	if err != nil {
		return nil, err
	}
	access := env.s3.Access
	return env.serveProgram(ctx, tusd, program, "/", func(addr string) (args, settings []string) {
		host, port, _ := strings.Cut(addr, ":")
		return []string{"-host=" + host, "-port=" + port, "-s3-bucket=" + t.Account.Bucket, "-s3-endpoint=" + access.Endpoint, "-s3-object-prefix=" + tusd + "/"},
			[]string{"AWS_ACCESS_KEY_ID=" + access.AccessKey, "AWS_SECRET_ACCESS_KEY=" + access.SecretKey, "AWS_REGION=" + access.Region}
	})
}
