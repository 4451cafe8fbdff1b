package upload

import (
	"context"
	"sync/atomic"
	"testing"
)

// A closed request body must not return the bytes of the upload that has its memory next.
func TestBufferReader_ReadsNothingAfterClose(t *testing.T) {
	t.Parallel()
	var held atomic.Int64
	b := buffer{held: &held}
	file := make([]byte, 3*chunkSize+7)
	for i := range file {
		file[i] = byte(i)
	}
	reader := &limited{data: file}
	for {
		if _, err := b.read(reader); err != nil {
			break
		}
	}
	body := b.reader(b.size)
	got := make([]byte, 1000)
	if n, err := body.Read(got); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	_ = body.Close()
	b.release()
	if n, err := body.Read(got); n != 0 || err == nil {
		t.Errorf("a closed body returned %d bytes, %v", n, err)
	}
	if _, err := body.Seek(0, 0); err != nil {
		t.Error(err)
	}
	if n, err := body.Read(got); n != 0 || err == nil {
		t.Errorf("a closed body returned %d bytes from its start, %v", n, err)
	}
}

// limited returns pieces of odd sizes, as connections do.
type limited struct {
	data []byte
	at   int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.at == len(l.data) {
		return 0, context.Canceled
	}
	n := copy(p[:min(len(p), 1777)], l.data[l.at:])
	l.at += n
	return n, nil
}
