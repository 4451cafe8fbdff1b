package journal

import (
	"time"

	"mediastack.dev/runtime/fault"
)

// cursor is a place in the journal, and what is known of the read that stopped there. The zero cursor is the place before all events.
type cursor struct {
	// installation is the epoch of the installation when the cursor was made. Events of a later one may not be those that followed it.
	installation int64
	// epoch, transaction and id are those of Position.
	epoch, transaction, id int64
	// read is the time of the last event that was read, in microseconds since 1970; 0 = none was.
	read int64
	// seen is the time of the last read that reached the end, or else that of the last event, in seconds since 1970: what is older has
	// been read.
	seen int64
}

// nowCursor is the place of AfterNow, which is known when the state of the journal is.
var nowCursor = cursor{installation: -1}

// cursorVersion begins the text of a cursor.
const cursorVersion = 1

// latest bounds the times of a cursor, which PostgreSQL compares.
var latest = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// text returns the cursor as parseCursor reads it.
func (c cursor) text() string {
	return encodeNumbers(cursorVersion, c.installation, c.epoch, c.transaction, c.id, c.read, c.seen)
}

var errCursor = fault.New(fault.Invalid, "after must be next of an answer, or now, or be omitted")

// parseCursor reads Request.After. A cursor is not signed: a forged one is another place in the journal of the caller.
func parseCursor(text string) (cursor, error) {
	switch text {
	case "":
		return cursor{}, nil
	case AfterNow:
		return nowCursor, nil
	}
	var numbers [6]int64
	if !decodeNumbers(text, cursorVersion, numbers[:]) {
		return cursor{}, errCursor
	}
	c := cursor{installation: numbers[0], epoch: numbers[1], transaction: numbers[2], id: numbers[3], read: numbers[4], seen: numbers[5]}
	if c.epoch > c.installation || c.read > latest.UnixMicro() || c.seen > latest.Unix() || c.seen == 0 {
		return cursor{}, errCursor
	}
	return c, nil
}
