package media

import "mediastack.dev/runtime/fault"

// CheckState is what is known of the file of an item in an account that checks files before they are sealed (docs/decisions/0051). It is stored.
type CheckState int16

// The states.
const (
	// CheckNone is an item whose file was not to be checked when it was uploaded.
	CheckNone CheckState = iota
	// CheckWaiting is a draft whose file is to be checked.
	CheckWaiting
	// CheckPassed is an item that may be sealed.
	CheckPassed
	// CheckRejected is a draft that may not be sealed, since its file cannot be checked.
	CheckRejected
	// CheckSealWanted is a draft whose file is to be checked, and that is sealed once it may be.
	CheckSealWanted
)

// Pending reports whether the file is still to be checked.
func (c CheckState) Pending() bool { return c == CheckWaiting || c == CheckSealWanted }

// Blocked reports whether the file must not leave the service: it was not checked, or was rejected.
func (c CheckState) Blocked() bool { return c.Pending() || c == CheckRejected }

// ErrNotChecked is the fault of a request for the bytes of a file that must not leave the service.
var ErrNotChecked = fault.New(fault.Conflict, "the file is not checked for malware yet, or cannot be checked: nobody can read it")

// Readable returns ErrNotChecked for an item whose file must not leave the service. All that gives out bytes of an item asks it, or
// Store.ItemForDelivery, which does.
func (i Item) Readable() error {
	if i.Check.Blocked() {
		return ErrNotChecked
	}
	return nil
}

// ErrUnscannable is the fault of a seal of a draft whose file cannot be checked.
var ErrUnscannable = fault.New(fault.Rejected, "the file cannot be checked for malware, and the account accepts no such files: it is encrypted, damaged or too large. Upload another file")

// FoundFault returns the fault of a seal of a file in which something was found.
func FoundFault(finding string) error {
	return fault.New(fault.Rejected, "the file was rejected, and the draft has ended: it contains %s", finding)
}
