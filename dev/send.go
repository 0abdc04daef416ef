package dev

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev/decide"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// sendView gives the view to members that hold another one, and calls done after each. A newcomer hears nothing before
// a view has had its ID.
func (p *processes) sendView(ctx context.Context, v view.View, reports map[view.MemberID]decide.Report, done func()) {
	if v.Epoch == 0 {
		return
	}
	for _, m := range p.all() {
		r, known := reports[m.id]
		if !known || r.Lost() || r.Disk == "" || r.Answer.Digest == v.Digest() || m.id > v.LastIssued() ||
			!m.telling.CompareAndSwap(false, true) {
			continue
		}
		p.background.Go(func() {
			defer m.telling.Store(false)
			ctx, cancel := context.WithTimeout(ctx, linkTimeout)
			defer cancel()
			// What comes of it shows in the member's next status.
			_, _ = m.admin.Configure(ctx, &adminv1.ConfigureRequest{
				Cluster: v.Cluster, Member: uint32(m.id), View: wire.ToProto(v),
			}, grpc.WaitForReady(true))
			done()
		})
	}
}

// sendLives has witnesses begin and end lives of a view, and calls done after each.
func (p *processes) sendLives(ctx context.Context, v view.View, begin, end []membership.Life, done func()) {
	for _, w := range p.witnesses() {
		own := func(l membership.Life) bool { return l.Witness == w.id }
		if !slices.ContainsFunc(begin, own) && !slices.ContainsFunc(end, own) || !w.busy.CompareAndSwap(false, true) {
			continue
		}
		named, _ := v.Witness(w.id)
		p.background.Go(func() {
			defer w.busy.Store(false)
			ctx, cancel := context.WithTimeout(ctx, linkTimeout)
			defer cancel()
			if err := w.manager.Live(ctx, named.Disk, begin, end); err != nil && ctx.Err() == nil {
				p.complain(w, err)
				return
			}
			done()
		})
	}
}

// complain says what went wrong with a witness, once.
func (p *processes) complain(w *witnessUnit, err error) {
	text := err.Error()
	if earlier := w.said.Swap(&text); w.running() && (earlier == nil || *earlier != text) {
		p.say("%s: %s", w.label, text)
	}
}
