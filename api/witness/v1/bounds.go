package witnessv1

import (
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// What a witness is told above these nobody can have counted up to, and is not believed; nor is a disk that tells of
// it.
const (
	MaxTerm     = view.MaxEpoch      // of a partition's terms, which are epochs
	MaxPromises = register.MaxNumber // of what a witness has promised in a partition
)
