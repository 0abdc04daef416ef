package layered

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
)

// Adopt implements member.Inner: a state transfer brings what other members have. Of the fragments of k of them this
// member's own is made at once; what is short of k then is asked for by Settle.
func (p *Protocol) Adopt(key, value []byte) error {
	switch {
	case len(key) == 0 || key[0] != recordPrefix && key[0] != piecesPrefix:
		return p.inner.Adopt(key, value)
	case len(key) <= len(codeKey) || p.code == nil:
		return nil // the sender's own
	}
	of, n, ok := readRecordKey(key)
	if !ok {
		return fmt.Errorf("%q is no record of a fragment", key)
	}
	of = append([]byte(nil), of...)
	if key[0] == recordPrefix {
		var r peerv1.FragmentRecord
		if err := r.UnmarshalVT(value); err != nil {
			return err
		}
		if r.State != peerv1.FragmentState_FRAGMENT_GONE {
			p.want(of, n)
		}
		return nil
	}
	var theirs peerv1.FragmentPieces
	if err := theirs.UnmarshalVT(value); err != nil {
		return err
	}
	if !p.want(of, n) {
		return nil
	}
	f := &fetch{Operation: base.Operation{Key: of}, name: n, pieces: map[uint32][]byte{}}
	all := append(p.pieces(of, n), theirs.Pieces...)
	kept := all[:0:0]
	for _, piece := range all {
		if f.pieces[piece.Index] == nil {
			kept = append(kept, piece)
		}
		p.gather(f, piece.Index, piece.Data)
	}
	if len(f.pieces) >= p.code.k {
		p.rebuilt(f)
		return nil
	}
	p.keep(of, n, peerv1.FragmentState_FRAGMENT_WANTED, kept...)
	return nil
}

// want notes a fragment that is to be rebuilt, and reports whether it is: not if it is here.
func (p *Protocol) want(key []byte, n name) bool {
	switch state, ok := p.known(key, n); {
	case ok && state != peerv1.FragmentState_FRAGMENT_WANTED:
		return false
	case !ok:
		p.keep(key, n, peerv1.FragmentState_FRAGMENT_WANTED)
	}
	p.note(recordKey(recordPrefix, key, n))
	return true
}

// note has the fragment of a record rebuilt.
func (p *Protocol) note(record []byte) {
	if p.wanted[string(record)] == nil {
		p.wanted[string(record)] = nil
	}
}

func (p *Protocol) unwant(key []byte, n name) {
	record := string(recordKey(recordPrefix, key, n))
	if f := p.wanted[record]; f != nil {
		p.fetches.End(f)
	}
	delete(p.wanted, record)
}

// scan finds what an earlier process wanted.
func (p *Protocol) scan() {
	p.scanned = true
	p.visit(nil, func(record, _ []byte, _ name, state peerv1.FragmentState) bool {
		if state == peerv1.FragmentState_FRAGMENT_WANTED {
			p.note(record)
		}
		return true
	})
}

// maxRebuilds bounds the fragments that are fetched for at once.
const maxRebuilds = 32

// rebuild asks for the fragments of others where this member's own is missing.
func (p *Protocol) rebuild() {
	if len(p.wanted) == 0 || p.code == nil {
		return
	}
	asking, most := 0, min(len(p.wanted), maxRebuilds)
	for _, f := range p.wanted { // order is irrelevant: a count
		if f != nil {
			asking++
		}
	}
	if asking >= most {
		return
	}
	after := p.asked
	p.asked = nil // from the beginning, unless there is more
	p.visit(after, func(record, key []byte, n name, state peerv1.FragmentState) bool {
		if state == peerv1.FragmentState_FRAGMENT_WANTED && p.wanted[string(record)] == nil {
			if asking++; asking == most {
				p.asked = record
			}
			f := p.newFetch(key, n)
			p.wanted[string(record)] = f
			if p.voting {
				f.answered.Answer(p.Incarnations, p.Config.Self) // that it has none
			}
			p.ask(f, p.AskAll(&f.answered))
		}
		return asking < most
	})
}

// rebuilt makes this member's own fragment of k others, where it was wanted.
func (p *Protocol) rebuilt(f *fetch) {
	p.makeOwn(f, peerv1.FragmentState_FRAGMENT_HELD, pathRebuilt)
	p.unwant(f.Key, f.name)
	p.noteWritten(f.Key, f.name)
}

// makeOwn makes this member's own fragment of k others. An error stops the member.
func (p *Protocol) makeOwn(f *fetch, state peerv1.FragmentState, path string) {
	own := index(p.Config.Self)
	data, err := p.code.rebuild(f.pieces, own)
	if err != nil {
		p.Fault("make a fragment of key %q: %w", f.Key, err)
		return
	}
	p.Took(path)
	p.keep(f.Key, f.name, state, &peerv1.FragmentPiece{Index: own, Data: data})
}

// abandon gives up a fragment that can't be rebuilt, if so many have answered that the metadata was written in no way
// that counts on it. Had the writer counted this member's lost disk, k + f - 1 others had their fragments by then; at
// most f - 1 of those have not answered. Who answered that it has none, and gets one later, tells the writer that the
// disk is lost. So does this member's own question. One that votes was not counted, with any disk: k + f others had
// theirs, of which at most f have not answered, so its own answer is one of those n - f.
func (p *Protocol) abandon(f *fetch) {
	side := p.Config.View.Before()
	n := p.answered(&f.answered, side) // itself too, if it votes
	if n < side.Size()-p.faults(side) {
		return
	}
	p.Took(pathAbandoned)
	p.forget(f.Key, f.name)
	p.unwant(f.Key, f.name)
}
