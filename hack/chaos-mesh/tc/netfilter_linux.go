package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/florianl/go-nfqueue/v2"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/georegister/georegister/hack/chaos-mesh/netem"
)

// queue is one of netfilter's queues.
type queue struct {
	netfilter *nfqueue.Nfqueue
	cancel    context.CancelFunc
}

// openQueue has a copy of each packet of a queue told, by its number. Large segments are cut first, and checksums are
// there, so that a copy can be sent in the packet's stead.
func openQueue(number uint16, arrive func(id uint32, content []byte)) (*queue, error) {
	n, err := nfqueue.Open(&nfqueue.Config{
		NfQueue: number, MaxQueueLen: 1 << 16, AfFamily: unix.AF_INET,
		Copymode: nfqueue.NfQnlCopyPacket, MaxPacketLen: 1<<16 - 1,
		Flags: nfqueue.NfQaCfgFlagFailOpen,
	})
	if err != nil {
		return nil, err
	}
	// A burst must not lose packets that the kernel holds until they are told.
	_ = n.SetOption(netlink.NoENOBUFS, true)
	if err := setBuffer(n.Con); err != nil {
		n.Con.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	take := func(a nfqueue.Attribute) int {
		if a.PacketID != nil && a.Payload != nil {
			arrive(*a.PacketID, *a.Payload)
		}
		return 0
	}
	failed := func(err error) int {
		if ctx.Err() != nil {
			return 1
		}
		fmt.Fprintln(os.Stderr, "receive from queue", number, err)
		return 0
	}
	if err := n.RegisterWithErrorFunc(ctx, take, failed); err != nil {
		cancel()
		n.Con.Close()
		return nil, err
	}
	return &queue{n, cancel}, nil
}

// setBuffer gives a socket room for a burst.
func setBuffer(c *netlink.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
	})
	return errors.Join(err, failed)
}

// accept lets a packet go on.
// It fails for a queue that is closed.
func (q *queue) accept(id uint32) { _ = q.netfilter.SetVerdict(id, nfqueue.NfAccept) }

// drop ends a packet.
func (q *queue) drop(id uint32) { _ = q.netfilter.SetVerdict(id, nfqueue.NfDrop) }

// close gives the queue back. What is in it is dropped by the kernel.
func (q *queue) close() {
	q.cancel()
	q.netfilter.Con.Close()
}

// The rules of a namespace are in a table of their own, after iptables' OUTPUT chain, in which Chaos Mesh marks packets
// with their class.
func table() *nftables.Table {
	return &nftables.Table{Name: "georegister-tc", Family: nftables.TableFamilyIPv4}
}

// setRules replaces the rules by those that lead packets into the lines' queues, all at once.
func setRules(lines []*line) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	t := table()
	c.AddTable(t) // so that there is one to delete
	c.DelTable(t)
	c.AddTable(t)
	chain := c.AddChain(&nftables.Chain{
		Name: "postrouting", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityMangle + 10),
	})
	// What the sender of copies sends has been delayed.
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, mark)},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}})
	for _, l := range lines {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: l.rule()})
	}
	return c.Flush()
}

// rule matches a line's packets and queues them.
func (l *line) rule() []expr.Any {
	var name [unix.IFNAMSIZ]byte
	copy(name[:], l.device)
	exprs := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name[:]},
	}
	if l.route.Class != (netem.Handle{}) {
		exprs = append(exprs,
			&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: 1},
			&expr.Cmp{
				Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, l.route.Class.Priority()),
			})
	}
	// iptables' target, as a kernel may lack nftables' own. Its information is struct xt_NFQ_info_v2: the number, how
	// many queues from there on, and whether packets pass when nobody listens.
	var info xt.Unknown
	for _, v := range []uint16{l.number, 1, 1} {
		info = binary.NativeEndian.AppendUint16(info, v)
	}
	info = append(info, 0, 0) // aligned to 8 bytes
	return append(exprs, &expr.Target{Name: "NFQUEUE", Rev: 2, Info: &info})
}

// removeRules removes the rules, if there are any.
func removeRules() {
	c, err := nftables.New()
	if err != nil {
		return
	}
	c.AddTable(table())
	c.DelTable(table())
	if err := c.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "remove nftables' rules:", err)
	}
}

// watchDevices calls gone once all devices that have a tree are removed, as when their pod ends. Without it, a delayer
// would keep the namespace of a dead pod for ever.
func watchDevices(gone func(), devices func() []string) error {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: unix.RTMGRP_LINK})
	if err != nil {
		return err
	}
	go func() {
		for {
			messages, err := c.Receive()
			removed := err != nil // messages may have been lost
			for _, m := range messages {
				removed = removed || m.Header.Type == unix.RTM_DELLINK
			}
			if names := devices(); removed && len(names) > 0 && !anyThere(names) {
				gone()
			}
		}
	}()
	return nil
}

func anyThere(devices []string) bool {
	for _, name := range devices {
		if _, err := net.InterfaceByName(name); err == nil {
			return true
		}
	}
	return false
}
