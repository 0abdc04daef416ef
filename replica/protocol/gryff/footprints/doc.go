// Package footprints holds a model of a way to have Gryff-RSC ask beside what a session depends on, which is not built
// (docs/protocols.md, "Footprints"), and the search that it was put before.
package footprints
