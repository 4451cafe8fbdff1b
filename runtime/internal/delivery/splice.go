package delivery

import (
	"errors"
	"io"
	"net/http"

	"mediastack.dev/runtime/splice"
)

// pipeWriter is a response that sends what a pipe holds.
type pipeWriter interface {
	WritePipe(p *splice.Pipe) (int64, error)
}

// errWrongLength ends a response of which the pipe holds other bytes than were read.
var errWrongLength = errors.New("the pipe holds another number of bytes than was read")

// pipeFor returns the pipe between the object store and the client, nil if the file is small or in memory, or the
// connection encrypted.
func pipeFor(w http.ResponseWriter, r *http.Request, file resolvedFile) *splice.Pipe {
	if _, ok := w.(pipeWriter); !ok || r.TLS != nil || r.ProtoMajor != 1 || file.data != nil || file.object.Bytes < splice.MinLength {
		return nil
	}
	pipe, err := splice.New()
	if err != nil {
		return nil // the bytes are copied
	}
	return pipe
}

// splice sends body through the pipe, and what is read into its buffer as Write does.
func (s *sender) splice(body io.Reader) (sent int64, err error) {
	to := s.ResponseWriter.(pipeWriter) //nolint:forcetypeassert // see pipeFor
	for {
		n, readErr := body.Read(s.pipe.Buffer())
		switch held := s.pipe.Held(); {
		case held == 0 && n > 0:
			var wrote int
			wrote, err = s.Write(s.pipe.Buffer()[:n])
			sent += int64(wrote)
		case held > 0 && held != n:
			err = errWrongLength
		case held > 0:
			var wrote int64
			wrote, err = to.WritePipe(s.pipe)
			sent += wrote
		}
		switch {
		case err != nil:
			return sent, err
		case errors.Is(readErr, io.EOF):
			return sent, nil
		case readErr != nil:
			return sent, readErr
		}
	}
}

// releasePipe releases the pipe of a response.
func (d *Delivery) releasePipe(pipe *splice.Pipe) {
	d.spliced.Add(float64(pipe.Passed()))
	pipe.Release()
}
