package node

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bytes is a number of bytes, spelled as in manifests: 32Mi.
type Bytes int

// DefaultTransferRate leaves most of a disk and a network to the clients while a member fetches.
const DefaultTransferRate Bytes = 32 << 20

// units are ascending, each 1024 times the one before.
var units = []string{"", "Ki", "Mi", "Gi", "Ti"}

// MarshalJSON writes it like "32Mi", in the largest unit that needs no fraction.
func (b Bytes) MarshalJSON() ([]byte, error) {
	unit := 0
	for ; b != 0 && b%1024 == 0 && unit < len(units)-1; unit++ {
		b /= 1024
	}
	return []byte(strconv.Quote(strconv.Itoa(int(b)) + units[unit])), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, and a plain number.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	written, err := strconv.Unquote(string(text))
	if err != nil {
		written = string(text)
	}
	digits := strings.TrimRight(written, "KMGTi")
	unit := slices.Index(units, written[len(digits):])
	number, err := strconv.Atoi(digits)
	if err != nil || unit < 0 || number < 0 || number > math.MaxInt>>(10*unit) {
		return fmt.Errorf("%s is not a number of bytes; write it like 32Mi: a whole number, and Ki, Mi, Gi or Ti", text)
	}
	*b = Bytes(number << (10 * unit))
	return nil
}
