package gryff

import "github.com/georegister/georegister/replica/protocol/base"

// Adopt implements member.Inner: it merges a record of another member.
func (p *Protocol) Adopt(key, value []byte) error {
	if base.IsRegister(key) {
		return p.Registers.Adopt(key, value)
	}
	return p.rmws.Adopt(key, value)
}
