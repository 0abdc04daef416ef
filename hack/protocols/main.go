// Command protocols generates what follows from the definitions of the protocols (replica/protocol/catalog): the table
// of replica/capability, the names that the CRD allows, and the tables of README.md, docs/protocols.md and
// docs/redis.md.
//
//	go run ./hack/protocols [-out DIRECTORY]
package main

import (
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/listener/redis"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
)

func main() {
	out := flag.String("out", ".", "the directory to write to, in the layout of the project")
	flag.Parse()
	if err := generate(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rows are those of all protocols, sorted by name as manifests spell it.
func rows() (all []capability.Protocol) {
	for _, e := range catalog.All() {
		all = append(all, e.Row)
	}
	slices.SortFunc(all, func(a, b capability.Protocol) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func generate(out string) error {
	var names []string
	for _, row := range rows() {
		names = append(names, row.Name)
	}
	table, err := format.Source([]byte(source(rows())))
	if err != nil {
		return fmt.Errorf("the table: %w", err)
	}
	files := map[string]string{"replica/capability/table.go": string(table)}
	for _, part := range []struct {
		file    string
		between string // a regular expression with a group before what is replaced, and one behind it
		text    string
	}{
		{"api/v1alpha1/types.go", `(// \+kubebuilder:validation:Enum=)ABD;[^\n]*(\n)`, strings.Join(names, ";")},
		{"README.md", `(?s)(\n\| protocol \| good at \| its price \|\n\|---\|---\|---\|\n).*?(\n\n)`,
			strings.TrimSpace(choices())},
		{"docs/redis.md", `(?s)(<!-- commands by protocol -->\n\n).*?(\n<!-- end -->)`, commands(rows())},
		{"docs/protocols.md", `(?s)(<!-- what georegister protocols prints -->\n\n).*?(\n<!-- end -->)`,
			capability.Render(rows())},
	} {
		old, err := os.ReadFile(part.file)
		if err != nil {
			return err
		}
		found := regexp.MustCompile(part.between).FindSubmatchIndex(old)
		if found == nil {
			return fmt.Errorf("%s: there is no %s", part.file, part.between)
		}
		files[part.file] = string(old[:found[3]]) + part.text + string(old[found[4]:])
	}
	for path, text := range files { // order is irrelevant: each is a file of its own
		path = filepath.Join(out, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// choices are the lines of README.md, the default protocol first.
func choices() string {
	all := slices.Clone(catalog.All())
	slices.SortStableFunc(all, func(a, b catalog.Entry) int {
		switch isDefault := func(e catalog.Entry) bool { return e.Row.Name == "Gryff" }; {
		case isDefault(a) == isDefault(b):
			return 0
		case isDefault(a):
			return -1
		}
		return +1
	})
	var b strings.Builder
	for i, e := range all {
		name := "`" + e.Row.Name + "`"
		if i == 0 {
			name += " (the default)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, e.GoodAt, e.Price)
	}
	return b.String()
}

// commands are the lines of docs/redis.md: which commands of Redis a protocol serves.
func commands(rows []capability.Protocol) string {
	const served, refused, notAtomic = "yes", "refused", "not atomic"
	quoted := func(kind register.Kind) string {
		names := slices.DeleteFunc(redis.Commands(kind), func(name string) bool {
			return name == "DEL" || name == "UNLINK"
		})
		return "`" + strings.Join(names, "` `") + "`"
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"| protocol | reads: %s | plain writes: %s | read-modify-writes: %s, and `SET` with options | `DEL` "+
			"`UNLINK` |\n",
		quoted(register.Read), quoted(register.Write), quoted(register.RMW))
	b.WriteString("|---|---|---|---|---|\n")
	for _, row := range rows {
		write, rmw, deletes := served, served, served
		if row.Operation(register.Write).Refusal != "" {
			write, deletes = refused, refused
		} else if row.Operation(register.RMW).Refusal != "" {
			deletes = notAtomic
		}
		if op := row.Operation(register.RMW); op.Refusal != "" || op.Idempotent { // no command's function is idempotent
			rmw = refused
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.Name, served, write, rmw, deletes)
	}
	return b.String()
}

// quorums and kinds are the constants' names in Go.
var (
	quorums = map[capability.Quorum]string{
		capability.Majority: "Majority", capability.AllButOne: "AllButOne", capability.AllButTwo: "AllButTwo",
		capability.Replicas: "Replicas", capability.Nobody: "Nobody", capability.Superquorum: "Superquorum",
	}
	kinds = map[register.Kind]string{
		register.Read: "register.Read", register.Write: "register.Write", register.RMW: "register.RMW",
		register.Fence: "register.Fence",
	}
)

// source is the table as Go.
func source(rows []capability.Protocol) string {
	var b strings.Builder
	b.WriteString(`// Code generated by hack/protocols from the definitions of the protocols. DO NOT EDIT.

package capability

import "github.com/georegister/georegister/replica/register"

// Table lists every protocol that is built, sorted by name. The caller owns the slice, and must not change
// what its rows refer to.
func Table() []Protocol {
	return []Protocol{
`)
	path := func(p capability.Path) string { return fmt.Sprintf("Path{%d, %s}", p.RoundTrips, quorums[p.Quorum]) }
	for _, p := range rows {
		fmt.Fprintf(&b,
			"{\nName: %q, Consistency: %q, Members: %#v, Relaxed: %t, Fast: %t, Fragments: %t,\nNote: %q,\n"+
				"Operations: []Operation{\n",
			p.Name, p.Consistency, p.Members, p.Relaxed, p.Fast, p.Fragments, p.Note)
		for _, op := range p.Operations {
			fmt.Fprintf(&b, "{Kind: %s", kinds[op.Kind])
			if op.Refusal != "" {
				fmt.Fprintf(&b, ", Refusal: %q},\n", op.Refusal)
				continue
			}
			fmt.Fprintf(&b, ", Best: %s, Worst: %s", path(op.Best), path(op.Worst))
			if op.BestOnly != nil {
				fmt.Fprintf(&b, ", BestOnly: %#v", op.BestOnly)
			}
			if op.UpTo > 0 {
				fmt.Fprintf(&b, ", UpTo: %d", op.UpTo)
			}
			if op.Idempotent {
				b.WriteString(", Idempotent: true")
			}
			b.WriteString("},\n")
		}
		b.WriteString("},\n},\n")
	}
	b.WriteString("}\n}\n")
	return b.String()
}
