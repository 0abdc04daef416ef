// Package layout holds tests of the project's shape: which package may depend on which, what pure packages may
// not touch, and how long a file may grow.
package layout
