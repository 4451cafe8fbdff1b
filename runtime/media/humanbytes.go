package media

import (
	"strconv"
	"strings"
)

// HumanBytes returns a number of bytes with a unit that is a power of 1024, in two to four digits.
func HumanBytes(n int64) string {
	if n < 1024 {
		if n == 1 {
			return "1 byte"
		}
		return strconv.FormatInt(n, 10) + " bytes"
	}
	value, unit := float64(n), -1
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for value >= 1023.5 && unit < len(units)-1 { // 1023.5 is rounded to 1024
		value /= 1024
		unit++
	}
	if value < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
	}
	return strconv.FormatFloat(value, 'f', 0, 64) + " " + units[unit]
}
