package dev

import (
	"strings"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/witness"
)

// memberConfig is what a member is started with now. Who the others are, it is told once it runs.
func (p *processes) memberConfig(m *member) node.Config {
	spec := p.spec
	limits, rate := spec.Limits.Register(), node.Bytes(spec.Storage.TransferBytes())
	durability, _ := storage.ParseDurability(string(spec.Storage.DurabilityOrDefault())) // the manifest is valid
	ports := m.record.Ports
	config := node.Config{
		Cluster: p.directory.Record.Cluster, Protocol: spec.Protocol, Shards: p.directory.Record.Shards,
		Self: m.id, Site: m.record.Site,
		Directory: m.disk(), Durability: durability,
		FlushEvery: node.Duration(spec.Storage.SyncInterval()), TransferRate: &rate,
		Cache: node.Bytes(spec.Storage.CacheBytes()),
		Limits: node.Limits{
			KeyBytes: limits.KeyBytes, ValueBytes: limits.ValueBytes,
			ClientMemory: node.Bytes(spec.Limits.ClientBytes()),
		},
		FaultTolerance: spec.ToldFaults(),
		Listen: node.Listen{
			Peer: record.Loopback(ports.Peer), GRPC: record.Loopback(ports.GRPC), Redis: record.Loopback(ports.Redis),
			Admin: record.Loopback(ports.Admin), HTTP: record.Loopback(ports.HTTP),
		},
		Blocked:       p.links.of(m.id),
		ExitWithInput: true,
	}
	if spec.Regular() {
		config.TokenKeys = p.directory.TokenKeys()
	}
	if e := spec.ErasureCoding(); e != nil {
		config.ErasureCoding = &node.ErasureCoding{DataFragments: int(e.DataFragments), ThresholdBytes: e.Threshold()}
	}
	for _, site := range sites(spec) {
		if way := spec.Way(site, m.record.Site); way.Delay > 0 || way.Jitter > 0 {
			config.Distances = append(config.Distances, node.Distance{
				Site: site, Delay: node.Duration(way.Delay), Jitter: node.Duration(way.Jitter),
			})
		}
	}
	return config
}

// sites are those between which the manifest knows the distance, or all that it has: with a profile, members can join
// at the others of the profile too.
func sites(spec v1alpha1.GeoRegisterClusterSpec) (names []string) {
	if spec.WAN != nil && spec.WAN.Profile != "" {
		if p, err := profile.Find(spec.WAN.Profile); err == nil { // it is valid
			for _, site := range p.Sites {
				names = append(names, strings.ToLower(site))
			}
		}
		return names
	}
	for _, site := range spec.Sites {
		names = append(names, site.Name)
	}
	return names
}

// witnessConfig is what a witness is started with that listens at a port.
func (p *processes) witnessConfig(w *witnessUnit, port int) witness.Config {
	durability := witness.Sync
	if p.spec.Storage.DurabilityOrDefault() == v1alpha1.Memory {
		durability = witness.Memory
	}
	return witness.Config{
		Cluster: p.directory.Record.Cluster, Self: uint32(w.id),
		Directory: w.disk(), Durability: durability, Slots: p.spec.WitnessSlots(),
		Listen: witness.Listen{Peer: record.Loopback(port)}, ExitWithInput: true,
	}
}
