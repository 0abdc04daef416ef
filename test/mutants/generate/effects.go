package generate

import (
	"go/ast"
	"go/types"
	"regexp"
)

// effects are the functions of a package that send, themselves or by what they call in it.
type effects struct {
	info  *types.Info
	sends map[types.Object]bool
}

// sending are the names of what sends, of the frame that protocols share.
var sending = regexp.MustCompile(`^(Send|SendAll|SendDurably|SendAllDurably|SendWhen|SendAllWhen|Reply|reply)$`)

// putting are the names of what stores a record, or changes what is stored.
var putting = regexp.MustCompile(`^(Put|Delete|Note|Apply|Adopt|[sS]ave\w*|[sS]tore|persist\w*|put\w*|merge|remember)$`)

func effectsOf(p *pkg) effects {
	e := effects{info: p.info, sends: map[types.Object]bool{}}
	for grew := true; grew; {
		grew = false
		for _, f := range p.functions {
			o := p.info.Defs[f.decl.Name]
			if e.sends[o] {
				continue
			}
			ast.Inspect(f.decl.Body, func(n ast.Node) bool {
				if c, is := n.(*ast.CallExpr); is && e.isSending(c) {
					e.sends[o], grew = true, true
				}
				return true
			})
		}
	}
	return e
}

// isSending reports whether a call sends a message.
func (e effects) isSending(c *ast.CallExpr) bool {
	name := called(c)
	return name != nil && (sending.MatchString(name.Name) || e.sends[e.info.Uses[name]])
}

// called is the name of the function or method that is called, or nil.
func called(c *ast.CallExpr) *ast.Ident {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f
	case *ast.SelectorExpr:
		return f.Sel
	}
	return nil
}

func calledName(c *ast.CallExpr) string {
	if n := called(c); n != nil {
		return n.Name
	}
	return ""
}
