package media

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// Bounds of what is read of a file to learn how it was made, in bytes.
const (
	// captureHead is what is read of a file that says it in its first bytes: a JPEG, a movie, or a recording.
	captureHead = 1 << 20
	// captureWhole is the largest picture that is read as a whole: the formats other than JPEG may say it at the end.
	captureWhole = 64 << 20
	// captureMoov is what is read of the box moov of a movie. Its tables grow with the length of the movie, and may be before what is wanted.
	captureMoov = 16 << 20
	// captureSteps bounds how many boxes are passed on the way to moov, with a read for each.
	captureSteps = 16
)

// captureFile is a file of which the parts are read that say how it was made.
type captureFile struct {
	objects     CaptureObjects
	bucket, key string
	size        int64
}

// byteRange is a part of a file.
type byteRange struct{ offset, length int64 }

// byteRanges are the parts of a file that are read, one after the other.
type byteRanges []byteRange

func (r byteRanges) bytes() (sum int64) {
	for _, part := range r {
		sum += part.length
	}
	return sum
}

// ranges returns the parts of a file that say how it was made, by its type.
func (f captureFile) ranges(ctx context.Context, mimeType string) (byteRanges, error) {
	head := byteRanges{{0, min(f.size, captureHead)}}
	switch {
	case f.size <= captureHead, mimeType == "image/jpeg", mimeType == "audio/mpeg":
		return head, nil
	case strings.HasPrefix(mimeType, "image/"):
		if f.size <= captureWhole {
			return byteRanges{{0, f.size}}, nil
		}
		return head, nil
	}
	return f.moov(ctx)
}

// boxHeader is the length of the longest header of a box.
const boxHeader = 16

// moov returns the first box of a movie, which names its format, and the box moov. That is after the media in a movie as cameras write them.
func (f captureFile) moov(ctx context.Context) (byteRanges, error) {
	first := byteRange{}
	for at, step := int64(0), 0; at+boxHeader <= f.size && step < captureSteps; step++ {
		header, err := f.read(ctx, byteRange{at, boxHeader})
		if err != nil {
			return nil, err
		}
		size := int64(binary.BigEndian.Uint32(header))
		switch size {
		case 0: // to the end
			size = f.size - at
		case 1:
			size = int64(min(binary.BigEndian.Uint64(header[8:]), uint64(f.size))) //nolint:gosec // at most the size of the file
		}
		if size < 8 {
			break
		}
		switch kind := string(header[4:8]); {
		case kind == "moov":
			// One that is cut off is read as far as it goes.
			moov := byteRange{at, min(size, f.size-at, captureMoov)}
			if step == 0 {
				return byteRanges{moov}, nil
			}
			return byteRanges{first, moov}, nil
		case step == 0 && size > captureHead: // a movie without the box that names its format
			first = byteRange{}
		case step == 0:
			first = byteRange{0, min(size, f.size)}
		}
		at += size
	}
	return byteRanges{{0, min(f.size, captureHead)}}, nil
}

// read reads a small part.
func (f captureFile) read(ctx context.Context, part byteRange) (data []byte, err error) {
	reader, err := f.objects.Open(ctx, f.bucket, f.key, part.offset, part.length)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	data = make([]byte, part.length)
	_, err = io.ReadFull(reader, data)
	return data, err
}

// open opens parts of the file as one.
func (f captureFile) open(ctx context.Context, parts byteRanges) (io.ReadCloser, error) {
	opened := &joined{}
	for _, part := range parts {
		if part.length == 0 {
			continue
		}
		reader, err := f.objects.Open(ctx, f.bucket, f.key, part.offset, part.length)
		if err != nil {
			_ = opened.Close()
			return nil, err
		}
		opened.parts = append(opened.parts, reader)
	}
	readers := make([]io.Reader, len(opened.parts))
	for i, part := range opened.parts {
		readers[i] = part
	}
	opened.Reader = io.MultiReader(readers...)
	return opened, nil
}

// joined is several readers as one.
type joined struct {
	io.Reader
	parts []io.ReadCloser
}

// Close closes all of them.
func (j *joined) Close() (err error) {
	for _, part := range j.parts {
		err = errors.Join(err, part.Close())
	}
	return err
}
