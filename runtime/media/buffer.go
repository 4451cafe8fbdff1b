package media

import (
	"io"
	"sync"
)

// classes are the sizes that part buffers come in, in bytes: most files are small,
// and a slow client holds no more memory than it has sent, times eight. The largest
// holds a part and the one byte that tells whether the file goes on.
var classes = [...]int{128 << 10, 1 << 20, PartSize + 1}

// pools keep buffers that are not in use, one pool for each class.
var pools [len(classes)]sync.Pool

// buffer collects the bytes of a file that have arrived and are not in S3 yet.
type buffer struct {
	data  []byte // what has arrived; its capacity is the class's size
	class int
}

func newBuffer() *buffer { return &buffer{data: take(0)} }

func take(class int) []byte {
	if used, ok := pools[class].Get().(*[]byte); ok {
		return (*used)[:0]
	}
	return make([]byte, 0, classes[class])
}

// read takes what one Read of file gives, growing to the next class when full. It
// must not be called when the largest class is full.
func (b *buffer) read(file io.Reader) (fresh []byte, err error) {
	if len(b.data) == cap(b.data) {
		larger := take(b.class + 1)[:len(b.data)]
		copy(larger, b.data)
		b.release()
		b.data, b.class = larger, b.class+1
	}
	from := len(b.data)
	n, err := file.Read(b.data[from:cap(b.data)])
	b.data = b.data[:from+n]
	return b.data[from:], err
}

// complete tells whether a part and one byte more are there.
func (b *buffer) complete() bool { return len(b.data) > PartSize }

// shift drops the first n bytes.
func (b *buffer) shift(n int) { b.data = b.data[:copy(b.data, b.data[n:])] }

// release gives the memory back; the buffer must not be used afterwards.
func (b *buffer) release() {
	data := b.data
	pools[b.class].Put(&data)
	b.data = nil
}
