package account

// Gate says how the files of an account are checked before they are sealed. The JSON form is stored, so a field is never renamed.
type Gate struct {
	// Scanner is what checks them, of those that the installation has: ScannerClamd or ScannerHTTP. Empty = nothing is checked.
	Scanner string `json:"scanner"`
	// AllowUnscannable lets files be sealed that the scanner cannot read, or that are larger than MaxScanBytes.
	AllowUnscannable bool `json:"allowUnscannable,omitempty"`
	// AllowUnchecked lets files be sealed while the scanner does not answer.
	AllowUnchecked bool `json:"allowUnchecked,omitempty"`
	// MaxScanBytes is the largest file that is scanned.
	MaxScanBytes int64 `json:"maxScanBytes,omitempty"`
}

// The scanners.
const (
	ScannerClamd = "clamd"
	ScannerHTTP  = "http"
)

// On reports whether files are checked.
func (g Gate) On() bool { return g.Scanner != "" }
