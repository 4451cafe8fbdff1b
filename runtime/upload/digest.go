package upload

import (
	"encoding"
	"fmt"
	"hash"

	"mediastack.dev/runtime/media"
)

// digest hashes a file while it arrives: each read at once, while the processor's cache has its
// bytes, and each byte once. The buffer of a transfer holds bytes that are hashed and not stored
// yet, so the digest keeps the states that a Resumable may continue from.
//
//	|--- stored ---|--- being sent ---|----- next part -----|-- ... --|
//	               '------------------ buffer ------------------------'
//	             stored                                    part    received
type digest struct {
	received hash.Hash // of all bytes
	stored   []byte    // state after the bytes before the buffer
	part     []byte    // state after the next part; nil if less of it has arrived
}

// newDigest returns the digest of a file of which nothing has been received.
func (s *Service) newDigest() digest {
	h := s.newHash()
	return digest{received: h, stored: stateOf(h)}
}

// write adds the next bytes of the file.
func (d *digest) write(data []byte) { _, _ = d.received.Write(data) } // never fails, by its contract

// markPart is called when the bytes that have arrived end with the next part.
func (d *digest) markPart() { d.part = stateOf(d.received) }

// takePart returns the state after the next part, whose bytes are being sent from now on. all reports
// that it has all bytes that have arrived.
func (d *digest) takePart(all bool) (state []byte) {
	if state = d.part; all {
		state = stateOf(d.received)
	}
	d.part = nil
	return state
}

// sum returns the hash of all bytes.
func (d *digest) sum() media.SHA256 { return d.received.Sum(nil) }

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
