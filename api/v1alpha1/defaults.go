package v1alpha1

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// What an absent field means. Nothing is written back into a manifest.
const (
	// DefaultShards is how many shards members have whose processor time is neither requested nor limited.
	DefaultShards = 2
	// MostDefaultShards bounds those of members with many processors: every shard costs each member a loop, and a
	// batch of the disk's log serves fewer operations.
	MostDefaultShards = 16
	DefaultMembers    = 1
	DefaultInterval   = 50 * time.Millisecond
	// DefaultNodePoolKey is the label by which cloud providers name a node's zone.
	DefaultNodePoolKey = "topology.kubernetes.io/zone"
	// DefaultStorageSize is the size of a member's volume.
	DefaultStorageSize = "10Gi"
	// DefaultTransferRate is how many bytes of state a member that joins fetches a second.
	DefaultTransferRate = 32 << 20
	// DefaultThresholdBytes is the size of the largest value that is stored whole with gus.erasureCoding.
	DefaultThresholdBytes = 64 << 10
	// DefaultWitnessSlots is the paper's number of slots of a witness for a master.
	DefaultWitnessSlots = 4096
)

// curp is the protocol with masters, backups and witnesses, as manifests spell it.
const curp = "CURP"

// gus is the protocol with quorums of several sizes, as manifests spell it.
const gus = "Gus"

// Bounds of durations.
const (
	maxInterval = time.Minute
	maxRTT      = 10 * time.Second
)

// ShardCount is spec.shards or its default for a cluster that is founded now: one for each processor that a member
// requests, or else may use at most; and with protocol CURP a master for each site.
func (s GeoRegisterClusterSpec) ShardCount() int {
	switch {
	case s.Shards != nil:
		return int(*s.Shards)
	case s.Partitioned():
		return len(s.Sites)
	}
	for _, cpu := range []*resource.Quantity{s.Resources.Requests.Cpu(), s.Resources.Limits.Cpu()} {
		if !cpu.IsZero() {
			return int(min(max(cpu.Value(), 1), MostDefaultShards)) // Value rounds up
		}
	}
	return DefaultShards
}

// Partitioned reports whether each shard has a master, backups and witnesses, which the view names: protocol CURP.
func (s GeoRegisterClusterSpec) Partitioned() bool { return s.Protocol == curp }

// Regular reports whether sessions carry what they read, so that members need keys that prove it: protocol GryffRSC.
func (s GeoRegisterClusterSpec) Regular() bool {
	row, err := capability.Find(s.Protocol)
	return err == nil && row.Regular()
}

// Faults is how many losses a shard survives without losing what was acknowledged: with protocol CURP
// spec.faultTolerance or its default, which is what the others survive too, the most with a majority left.
func (s GeoRegisterClusterSpec) Faults() int {
	return int(valueOr(s.FaultTolerance, int32((s.MemberCount()-1)/2)))
}

// ToldFaults is spec.faultTolerance with a protocol whose members are told of it, and count other quorums by it
// (capability.Protocol.CountsFaults). Otherwise, and if it is absent, 0.
func (s GeoRegisterClusterSpec) ToldFaults() int {
	if row, err := capability.Find(s.Protocol); err != nil || !row.CountsFaults() {
		return 0
	}
	return int(valueOr(s.FaultTolerance, 0))
}

// Tolerated is how many members of one side of a view may be lost without losing what was acknowledged: any minority,
// but where a protocol is told of fewer and counts its quorums by it, or keeps fewer copies.
func (s GeoRegisterClusterSpec) Tolerated(side view.View) int {
	row, err := capability.Find(s.Protocol)
	told := s.ToldFaults()
	_, relaxed := view.RelaxedFor(side.Size(), told)
	switch {
	case s.Partitioned():
		return min(s.Faults(), side.Faults())
	case s.ErasureCoding() != nil:
		return s.Fragments().Tolerated(side)
	case told > 0 && (relaxed || err == nil && row.Fast):
		return min(told, side.Faults())
	}
	return side.Faults()
}

// Home is the site where the master of a shard is at rest, with protocol CURP: that of spec.homes, or the default,
// which is the sites in their order, again and again. It is empty where spec.wan declares distances, which say where
// the default is then (membership.Placement).
func (s GeoRegisterClusterSpec) Home(shard int) string {
	switch {
	case shard < len(s.Homes) && s.Homes[shard] != "":
		return s.Homes[shard]
	case s.WAN != nil:
		return ""
	}
	return s.Sites[shard%len(s.Sites)].Name
}

// MemberCount is spec.sites[].members or its default.
func (s Site) MemberCount() int { return int(valueOr(s.Members, DefaultMembers)) }

// MemberCount is the number of members of all sites.
func (s GeoRegisterClusterSpec) MemberCount() int {
	n := 0
	for _, site := range s.Sites {
		n += site.MemberCount()
	}
	return n
}

// DurabilityOrDefault is spec.storage.durability or its default.
func (s Storage) DurabilityOrDefault() Durability {
	return cmp.Or(s.Durability, Sync)
}

// SyncInterval is spec.storage.interval or its default. It is meaningful with durability Interval, in a
// valid manifest.
func (s Storage) SyncInterval() time.Duration {
	if s.Interval == "" {
		return DefaultInterval
	}
	d, _ := s.Interval.parse() // validated
	return d
}

// StorageSize is spec.storage.size or its default.
func (s Storage) StorageSize() resource.Quantity {
	if s.Size == nil {
		return resource.MustParse(DefaultStorageSize)
	}
	return s.Size.DeepCopy()
}

// TransferBytes is spec.storage.transferRate or its default, in bytes a second.
func (s Storage) TransferBytes() int {
	if s.TransferRate == nil {
		return DefaultTransferRate
	}
	return int(s.TransferRate.Value())
}

// CacheBytes is spec.storage.cache in bytes; 0: members choose.
func (s Storage) CacheBytes() int { return bytesOf(s.Cache) }

// RetentionOrDefault is spec.storage.retention or its default.
func (s Storage) RetentionOrDefault() Retention {
	return cmp.Or(s.Retention, Retain)
}

// KeyOrDefault is spec.sites[].nodePool.key or its default.
func (p NodePool) KeyOrDefault() string {
	return cmp.Or(p.Key, DefaultNodePoolKey)
}

// Register is the limits, with their defaults, in the store's own vocabulary.
func (l Limits) Register() register.Limits {
	defaults := register.DefaultLimits()
	return register.Limits{
		KeyBytes:   int(valueOr(l.KeyBytes, int32(defaults.KeyBytes))),
		ValueBytes: int(valueOr(l.ValueBytes, int32(defaults.ValueBytes))),
	}
}

// ClientBytes is spec.limits.clientMemory in bytes; 0: members choose.
func (l Limits) ClientBytes() int { return bytesOf(l.ClientMemory) }

// bytesOf is a quantity of bytes; 0 if it is absent.
func bytesOf(q *resource.Quantity) int {
	if q == nil {
		return 0
	}
	return int(q.Value())
}

// Way is what the WAN does to messages from one site to another.
type Way struct {
	Delay  time.Duration
	Jitter time.Duration // at most, on top
	Loss   int64         // of 100,000 packets
	Rate   int64         // bits a second; 0: not bounded
}

// Way is the way from one site to another in a valid manifest; zero without a WAN and within a site.
func (s GeoRegisterClusterSpec) Way(from, to string) Way {
	switch {
	case s.WAN == nil || from == to:
		return Way{}
	case s.WAN.Profile != "":
		p, err := profile.Find(s.WAN.Profile)
		i, j := slices.Index(profileSites(p), from), slices.Index(profileSites(p), to)
		if err != nil || i < 0 || j < 0 {
			return Way{} // not a valid manifest
		}
		return Way{Delay: p.RTT[i][j] / 2}
	}
	for _, l := range s.WAN.Links {
		if l.joins(from, to) {
			return l.from(from)
		}
	}
	return Way{}
}

// RTT is the round-trip time between two sites that a valid manifest declares; zero without a WAN and within a site.
func (s GeoRegisterClusterSpec) RTT(a, b string) time.Duration {
	return s.Way(a, b).Delay + s.Way(b, a).Delay
}

// Distances are the round-trip times between all sites that a valid manifest declares, by both names; nil without a
// WAN.
func (s GeoRegisterClusterSpec) Distances() map[string]map[string]time.Duration {
	if s.WAN == nil {
		return nil
	}
	all := map[string]map[string]time.Duration{}
	for _, a := range s.Sites {
		all[a.Name] = map[string]time.Duration{}
		for _, b := range s.Sites {
			all[a.Name][b.Name] = s.RTT(a.Name, b.Name)
		}
	}
	return all
}

// from is one direction of a valid link.
func (l Link) from(site string) Way {
	rtt, _ := l.RTT.parse()
	way := Way{Delay: rtt / 2}.with(Direction{Jitter: l.Jitter, Loss: l.Loss, Rate: l.Rate})
	for _, d := range l.Directions {
		if d.From == site {
			way = way.with(d)
		}
	}
	return way
}

// with is a way with what a valid direction says.
func (w Way) with(d Direction) Way {
	if d.Delay != "" {
		w.Delay, _ = d.Delay.parse()
	}
	if d.Jitter != "" {
		w.Jitter, _ = d.Jitter.parse()
	}
	if d.Loss != "" {
		w.Loss, _ = d.Loss.parse()
	}
	if d.Rate != "" {
		w.Rate, _ = d.Rate.parse()
	}
	return w
}

// Tolerates reports whether a round trip that was measured is as declared, give or take what the WAN tolerates: it may
// be longer by a share of it and 2ms, and it may not be shorter.
func (w WAN) Tolerates(declared, measured time.Duration) bool {
	most := declared + declared*time.Duration(valueOr(w.TolerancePercent, 10))/100 + 2*time.Millisecond
	return declared <= measured && measured <= most
}

// profileSites are the sites of a profile by position, spelled as DNS labels.
func profileSites(p profile.Profile) []string {
	var names []string
	for _, site := range p.Sites {
		names = append(names, strings.ToLower(site))
	}
	return names
}

// joins reports whether the link is between a and b, in either order.
func (l Link) joins(a, b string) bool {
	return len(l.Between) == 2 &&
		(l.Between[0] == a && l.Between[1] == b || l.Between[0] == b && l.Between[1] == a)
}

// parse reads a duration; an empty one is zero.
func (d Duration) parse() (time.Duration, error) {
	if d == "" {
		return 0, nil
	}
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0, fmt.Errorf("not a duration; write it like 72ms or 1.5s")
	}
	return parsed, nil
}

// parse reads a share, in thousandths of a percent; an empty one is zero.
func (p Percentage) parse() (int64, error) {
	if p == "" {
		return 0, nil
	}
	if !percentage.MatchString(string(p)) {
		return 0, fmt.Errorf("not a percentage; write it like 1%% or 0.5%%")
	}
	whole, fraction, _ := strings.Cut(strings.TrimSuffix(string(p), "%"), ".")
	return strconv.ParseInt(whole+(fraction + "000")[:3], 10, 64)
}

// percentage is the pattern of Percentage.
var percentage = regexp.MustCompile(`^(100(\.0{1,3})?|[0-9]{1,2}(\.[0-9]{1,3})?)%$`)

// parse reads a rate, in bits a second; an empty one is zero.
func (r BitRate) parse() (int64, error) {
	if r == "" {
		return 0, nil
	}
	if !bitRate.MatchString(string(r)) {
		return 0, fmt.Errorf("must be from 8kbit to 100Gbit; write it like 100Mbit")
	}
	number := strings.TrimSuffix(string(r), "bit")
	last := len(number) - 1
	n, err := strconv.ParseInt(number[:last], 10, 64)
	return n * map[byte]int64{'k': 1e3, 'M': 1e6, 'G': 1e9}[number[last]], err
}

// bitRate is the pattern of BitRate.
var bitRate = regexp.MustCompile(`^(([89]|[1-9][0-9]{1,5})k|[1-9][0-9]{0,4}M|([1-9][0-9]?|100)G)bit$`)

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
