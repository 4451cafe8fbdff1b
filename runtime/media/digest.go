package media

import (
	"encoding"
	"fmt"
	"hash"
)

// digest hashes a file while it arrives: each read at once, while the processor's cache has its
// bytes, and each byte once. The buffer of a transfer holds bytes that are hashed and not stored
// yet, so the digest keeps the states that a Resumable may continue from.
//
//	|--- stored ---|----- PartSize -----|-- ... --|
//	               '------------ buffer ----------'
//	             stored                part    received
type digest struct {
	received hash.Hash // of all bytes
	stored   []byte    // state after the bytes before the buffer
	part     []byte    // state after these and the first PartSize bytes of the buffer; nil if it has fewer
}

// newDigest returns the digest of a file of which nothing has been received.
func (s *Service) newDigest() digest {
	h := s.newHash()
	return digest{received: h, stored: stateOf(h)}
}

// write adds the next bytes of the file. buffered is the size of the buffer with them.
func (d *digest) write(data []byte, buffered int) {
	_, _ = d.received.Write(data) // never fails, by its contract
	if buffered == PartSize {
		d.part = stateOf(d.received)
	}
}

// advance is called after PartSize bytes at the start of the buffer were stored, or all of them.
// buffered is what is left.
func (d *digest) advance(buffered int) {
	if d.stored = d.part; buffered == 0 {
		d.stored = stateOf(d.received)
	}
	d.part = nil
}

// sum returns the hash of all bytes.
func (d *digest) sum() SHA256 { return d.received.Sum(nil) }

// restore continues from the state stored of another digest. Nothing is in the buffer.
func (d *digest) restore(state []byte) error {
	if err := d.received.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil { //nolint:forcetypeassert // SHA-256 can
		return fmt.Errorf("restore the state of a hash: %w", err)
	}
	d.stored = state
	return nil
}

func stateOf(h hash.Hash) []byte {
	state, _ := h.(encoding.BinaryMarshaler).MarshalBinary() // SHA-256 never fails
	return state
}
