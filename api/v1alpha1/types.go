// Package v1alpha1 is the GeoRegisterCluster resource: its types, defaults and validation. The embedded
// `georegister dev` and the operator read the same manifest through it.
// +kubebuilder:object:generate=true
// +groupName=georegister.io
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What manifests write as apiVersion and kind.
const (
	APIVersion = "georegister.io/v1alpha1"
	Kind       = "GeoRegisterCluster"
)

// GeoRegisterCluster is a replicated store whose members live at several sites. Its name has at most 40 characters of
// lower case letters, digits and hyphens, begins with a letter, and has no two hyphens in a row: Services and pods are
// named after it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=grc,categories=all;georegister
// +kubebuilder:printcolumn:name=Protocol,type=string,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name=State,type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name=Sites,type=string,JSONPath=`.status.sitesReady`
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name=Quorum,type=string,JSONPath=`.status.quorum`
// +kubebuilder:printcolumn:name=Change,type=string,JSONPath=`.status.change.step`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name must have at most 40 characters: names of objects are made from it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z](-?[a-z0-9])*$')",message="metadata.name must be a DNS label that begins with a letter and has no two hyphens in a row, such as store: Services are named after it"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.storage) && has(self.spec.storage.class) ? self.spec.storage.class : '-') == (has(oldSelf.spec.storage) && has(oldSelf.spec.storage.class) ? oldSelf.spec.storage.class : '-') || !has(self.status) || !has(self.status.view)",message="spec.storage.class can't be changed: the volumes are there; restore it, or create a new cluster"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.storage) && has(self.spec.storage.class) ? self.spec.storage.class : '-') == (has(oldSelf.spec.storage) && has(oldSelf.spec.storage.class) ? oldSelf.spec.storage.class : '-') || (has(self.spec.storage) && has(self.spec.storage.class) ? self.spec.storage.class : '-') != '-'",message="spec.storage.class can't be removed: name the default class"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.view) || quantity(has(self.spec.storage) && has(self.spec.storage.size) ? string(self.spec.storage.size) : '10Gi').compareTo(quantity(has(oldSelf.spec.storage) && has(oldSelf.spec.storage.size) ? string(oldSelf.spec.storage.size) : '10Gi')) >= 0",message="spec.storage.size can't shrink (absent, it is 10Gi): ask for at least the former size"
type GeoRegisterCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GeoRegisterClusterSpec `json:"spec"`

	// Status is what the operator saw last. It is a projection: nothing is decided by it, and it may be lost. One that
	// no operator has written yet says so: what waits for a resource must not take it for one that is ready.
	// +kubebuilder:default={observedGeneration: 0, state: Unknown, conditions: {{type: Ready, status: Unknown, reason: NotSeen, message: "No operator has looked at this resource yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status GeoRegisterClusterStatus `json:"status,omitempty"`
}

// GeoRegisterClusterList is a list of GeoRegisterClusters.
// +kubebuilder:object:root=true
type GeoRegisterClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GeoRegisterCluster `json:"items"`
}

// GeoRegisterClusterSpec is what the user asks for. Options of one protocol alone stand in a section of its name, which
// only that protocol may have; what speaks of members, sites and shards stands beside them, also where few protocols
// have it yet.
// +kubebuilder:validation:XValidation:rule="self.protocol == 'CURP' || !has(self.curp)",message="curp is the section of protocol CURP alone: remove it, or use protocol CURP",fieldPath=".curp"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'Gus' || !has(self.gus)",message="gus is the section of protocol Gus alone: remove it, or use protocol Gus",fieldPath=".gus"
// +kubebuilder:validation:XValidation:rule="self.sites.map(s, s.?members.orValue(1)).sum() in (self.protocol == 'Gus' ? [3, 4, 5, 7, 9] : [3, 5, 7])",message="all sites together must have 3, 5 or 7 members, or 4 or 9 with protocol Gus: add or remove sites or members",fieldPath=".sites"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'CURP' || !has(self.shards) || !has(oldSelf.shards) || self.shards == oldSelf.shards",message="spec.shards can't be changed: restore it, or create a new cluster"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'CURP' || self.?shards.orValue(size(self.sites)) >= oldSelf.?shards.orValue(size(oldSelf.sites))",message="spec.shards can't shrink, since shards are split and never merged, and absent it is the number of sites: give at least the number that there was"
// +kubebuilder:validation:XValidation:rule="self.protocol in ['CURP', 'EPaxos', 'Gryff', 'GryffRSC', 'Gus'] || !has(self.faultTolerance)",message="faultTolerance is of protocols CURP, EPaxos, Gryff, GryffRSC and Gus alone, the others survive the loss of any minority: remove it, or use one of those",fieldPath=".faultTolerance"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'Gus' || !has(self.faultTolerance) || self.sites.map(s, s.?members.orValue(1)).sum() <= 5 || self.faultTolerance < 3",message="for n > 5 and n = 2f + 1 no register has both reads and writes of one round trip (theorem 1 of the Gus paper), and 9 members have no quorums for 3 either: lower faultTolerance to 1 or 2, or leave it out to have majorities, whose reads may have to wait longer",fieldPath=".faultTolerance"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'CURP' || self.?faultTolerance.orValue(0) == oldSelf.?faultTolerance.orValue(0)",message="spec.faultTolerance can be changed with protocol CURP alone, since members of the others count quorums by it: restore it, or create a new cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.faultTolerance) || 2 * self.faultTolerance < self.sites.map(s, s.?members.orValue(1)).sum()",message="faultTolerance must be less than half of the members: lower it, or add members",fieldPath=".faultTolerance"
// +kubebuilder:validation:XValidation:rule="!self.?gus.?erasureCoding.hasValue() || self.gus.erasureCoding.dataFragments <= self.sites.map(s, s.?members.orValue(1)).sum() - 2 * int(self.?faultTolerance.orValue((self.sites.map(s, s.?members.orValue(1)).sum() - 1) / 2))",message="dataFragments must be at most n - 2f, of n members of which f may be lost (absent, faultTolerance is any minority): lower dataFragments or faultTolerance, or add members",fieldPath=".gus.erasureCoding.dataFragments"
// +kubebuilder:validation:XValidation:rule="self.?gus.?erasureCoding.hasValue() == oldSelf.?gus.?erasureCoding.hasValue()",message="spec.gus.erasureCoding can't be added or removed, since values are stored by it: restore what was there, or create a new cluster",fieldPath=".gus.erasureCoding"
// +kubebuilder:validation:XValidation:rule="!self.?gus.?erasureCoding.hasValue() || self.sites.map(s, s.?members.orValue(1)).sum() >= oldSelf.sites.map(s, s.?members.orValue(1)).sum()",message="with erasureCoding members can't become fewer, since too few fragments of a value could be left: keep as many members, or create a new cluster",fieldPath=".sites"
// +kubebuilder:validation:XValidation:rule="(self.?curp.?witness.?placement.orValue('Sidecar') == 'Dedicated') == (oldSelf.?curp.?witness.?placement.orValue('Sidecar') == 'Dedicated')",message="spec.curp.witness.placement can't be changed (absent, it is Sidecar): restore it, or create a new cluster",fieldPath=".curp.witness.placement"
// +kubebuilder:validation:XValidation:rule="self.?curp.?witness.?placement.orValue('Sidecar') != 'Dedicated' || size(self.sites) > 2 * int(self.?faultTolerance.orValue((self.sites.map(s, s.?members.orValue(1)).sum() - 1) / 2))",message="placement Dedicated needs more than twice as many sites as faultTolerance, so that a master, its backups and its witnesses are at sites of their own: add sites, lower faultTolerance, or use Sidecar",fieldPath=".curp.witness.placement"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'CURP' || !has(self.homes)",message="protocol CURP alone has masters to give homes to: remove homes, or use protocol CURP",fieldPath=".homes"
// +kubebuilder:validation:XValidation:rule="!has(self.homes) || self.homes.all(h, size(h) == 0 || self.sites.exists(s, s.name == h))",message="homes names a site that is not in spec.sites: correct it, add the site there, or give that shard another home first",fieldPath=".homes"
// +kubebuilder:validation:XValidation:rule="!has(self.homes) || size(self.homes) <= self.?shards.orValue(size(self.sites))",message="homes has more entries than there are shards: remove the last ones",fieldPath=".homes"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'CURP' || !has(self.recovery) || has(self.recovery.trustMember)",message="recovery must name the member to trust: add trustMember",fieldPath=".recovery"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'CURP' || !has(self.recovery) || !has(self.recovery.trustMember)",message="with protocol CURP all members that are left go on, since none has all shards: remove trustMember",fieldPath=".recovery.trustMember"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'CURP' || !has(self.recovery) || !has(self.recovery.emptyShards)",message="with protocol CURP alone some shards can be lost and others not: remove recovery.emptyShards",fieldPath=".recovery.emptyShards"
// +kubebuilder:validation:XValidation:rule="!has(self.recovery) || !has(self.recovery.emptyShards) || self.recovery.emptyShards.all(n, n < self.?shards.orValue(size(self.sites)))",message="recovery.emptyShards has a number that no shard has: they are counted from 0",fieldPath=".recovery.emptyShards"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'CURP' || self.?storage.?durability.orValue('Sync') == 'Sync'",message="protocol CURP needs durability Sync: with another one, a master and its backups that restart together forget what they answered; remove durability, or use another protocol",fieldPath=".storage.durability"
// +kubebuilder:validation:XValidation:rule="(self.?storage.?durability.orValue('Sync') == 'Memory') == (oldSelf.?storage.?durability.orValue('Sync') == 'Memory')",message="spec.storage.durability can't be changed to or from Memory, which has no volumes: restore it, or create a new cluster"
// +kubebuilder:validation:XValidation:rule="self.?limits.?keyBytes.orValue(4096) >= oldSelf.?limits.?keyBytes.orValue(4096) && self.?limits.?valueBytes.orValue(1048576) >= oldSelf.?limits.?valueBytes.orValue(1048576)",message="spec.limits can't shrink (absent, keyBytes is 4096 and valueBytes 1048576): longer ones may be stored; ask for at least the former limits"
// +kubebuilder:validation:XValidation:rule="!has(self.wan) || !has(self.wan.profile) || self.wan.profile != 'gryff' || self.sites.all(s, s.name in ['ca', 'va', 'ir', 'or', 'jp'])",message="profile gryff has the sites ca, va, ir, or, jp alone: rename the sites, or give wan.links instead of the profile",fieldPath=".wan.profile"
// +kubebuilder:validation:XValidation:rule="!has(self.wan) || !has(self.wan.profile) || self.wan.profile != 'rss' || self.sites.all(s, s.name in ['ca', 'va', 'ir'])",message="profile rss has the sites ca, va, ir alone: rename the sites, or give wan.links instead of the profile",fieldPath=".wan.profile"
// +kubebuilder:validation:XValidation:rule="!has(self.wan) || !has(self.wan.links) || self.wan.links.all(l, l.between.all(end, self.sites.exists(s, s.name == end)))",message="a link joins a site that is not in spec.sites: add the site there or correct the name",fieldPath=".wan.links"
// +kubebuilder:validation:XValidation:rule="!has(self.wan) || !has(self.wan.links) || self.sites.all(a, self.sites.all(b, a.name == b.name || self.wan.links.exists_one(l, a.name in l.between && b.name in l.between)))",message="every pair of sites must have one link: add {between: [a, b], rtt: ...} for each pair that has none, and remove what is there twice",fieldPath=".wan.links"
type GeoRegisterClusterSpec struct {
	// Protocol is the replication protocol. It can't be changed later.
	// +kubebuilder:validation:Enum=ABD;CASPaxos;CURP;CURPRaft;EPaxos;Gryff;GryffRSC;Gus;RMWPaxos;RMWPaxosAtLeastOnce;Raft
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.protocol can't be changed: create a new cluster"
	Protocol string `json:"protocol"`

	// Sites are the places where members live. All members together must be 3, 5 or 7, with Gus also 4 or 9. They may
	// be edited: sites and members are added, removed and exchanged in one change of the membership, and another node
	// pool moves the members of its site. The status tells the change, and to edit the sites back abandons it.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Sites []Site `json:"sites"`

	// Shards is the number of parts that keys are in by their hash, each with its own instance of the protocol. It
	// can't be changed later, but with protocol CURP, which has a master for each, it may grow, and not shrink: shards
	// are split while the cluster serves, one after the other, and each new one takes half of the keys of one. Default:
	// one for each processor that resources requests for a member when the cluster is founded, or else limits it to, at
	// most 16; without either 2. With protocol CURP as many as sites: to remove a site, shards must be given.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Shards *int32 `json:"shards,omitempty"`

	// FaultTolerance is how many members can be lost at once: f of the papers. It is of protocols CURP, EPaxos, Gryff,
	// GryffRSC and Gus alone, and must be less than half of the members.
	//
	// With CURP so many can be lost without losing what was acknowledged. A shard has a master, and as many backups and
	// as many witnesses as this says. A master can be replaced only while a majority of the members is there. Default:
	// the most. With the others it can't be changed later, and by default any minority may be lost.
	//
	// With Gus and more than 5 members, to tolerate fewer lets reads return what is not known to be final, once enough
	// members hold it. A write that others conflict with then waits for all members but so many. With 7 or 9 members it
	// is 1 or 2; for 3 no such quorums exist. Up to 5 members it changes nothing. By default all wait for majorities.
	//
	// With EPaxos, and for read-modify-writes of Gryff and GryffRSC, f makes the fast quorum half of the members,
	// rounded down, and f. With 1 that is a majority, and whatever an operation meets does not keep it from the fast
	// path. If more are lost at once, keys that they were changing may wait until one is back. By default, as with 3
	// members in any case, the fast quorum is all but one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	FaultTolerance *int32 `json:"faultTolerance,omitempty"`

	// CURP has the options of protocol CURP alone.
	// +optional
	CURP *CURPOptions `json:"curp,omitempty"`

	// Gus has the options of protocol Gus alone.
	// +optional
	Gus *GusOptions `json:"gus,omitempty"`

	// Homes are the sites where the masters of shards are at rest, with protocol CURP, shard by shard from the first.
	// One that is empty or missing has the default: with wan, the sites where updates of the slowest site take least,
	// in turn, and otherwise the sites in their order, again and again. They may be changed at any time: the master of
	// that shard alone moves, once a member at its new home has fetched the state. A home must be in sites.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=20
	// +listType=atomic
	Homes []string `json:"homes,omitempty"`

	// Storage says what survives.
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// Limits bound what a client may store. They may grow, never shrink: longer values may be there.
	// +optional
	Limits Limits `json:"limits,omitempty"`

	// WAN is the network between the sites, to be emulated. Without it nothing is delayed.
	// +optional
	WAN *WAN `json:"wan,omitempty"`

	// Image is the container image of the members. Default: the image that they run, else that of the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="image must be the name of an image, without spaces"
	Image string `json:"image,omitempty"`

	// Resources are what each member requests of its node, and its limits. Claims can't be made.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="claims are of no use to members: remove them"
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// PodTemplate changes the members' pods.
	// +optional
	PodTemplate PodTemplate `json:"podTemplate,omitempty"`

	// Monitoring asks for objects of the Prometheus operator.
	// +optional
	Monitoring Monitoring `json:"monitoring,omitempty"`

	// Paused stops the operator from changing anything of this cluster: no update, no repair and no
	// replacement of lost members. The members keep serving, and the status is kept up to date.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Recovery consents to go on with what is left after a majority of the members was lost for good.
	// +optional
	Recovery *Recovery `json:"recovery,omitempty"`

	// DeletionProtection refuses the deletion of this resource until it is set to false. The admission policy
	// deletion-protection.georegister.io must be installed.
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`
}

// Site is a place where members live: a region or a zone.
type Site struct {
	// Name is a DNS label without two hyphens in a row, but not "peers" or "clients".
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="!(self in ['peers', 'clients'])",message="a site can't be called peers or clients: the Services of these names are for members among themselves, and for clients of all sites; choose another name"
	// +kubebuilder:validation:XValidation:rule="!self.contains('--')",message="a site's name can't have two hyphens in a row: in names of objects they are between the cluster's name and the rest"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a site's name must be a DNS label: lower case letters, digits and hyphens, with a letter or digit at both ends"
	Name string `json:"name"`

	// Members is how many members live at the site. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	Members *int32 `json:"members,omitempty"`

	// NodePool is the nodes that the site's members may run on. Without it they may run anywhere. With another one, a
	// new member joins there for each that is elsewhere, which then leaves.
	// +optional
	NodePool *NodePool `json:"nodePool,omitempty"`
}

// NodePool is the nodes with a label.
type NodePool struct {
	// Key is the label's key. Default: topology.kubernetes.io/zone.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="key must be the key of a node label, such as topology.kubernetes.io/zone"
	Key string `json:"key,omitempty"`

	// Value is the label's value.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="value must be the value of a node label: letters, digits, hyphens, underscores and dots, with a letter or digit at both ends"
	Value string `json:"value"`
}

// PodTemplate changes the members' pods.
type PodTemplate struct {
	// Affinity replaces the preference for spreading the members of a site over its nodes. The node pool of
	// a site is required beside it.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// Tolerations let the pods run on tainted nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// PriorityClassName is the priority class of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Annotations are added to the pods. Those of georegister.io are the operator's.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('georegister.io/'))",message="annotations of georegister.io/ are the operator's: remove them"
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels are added to the pods. Those of georegister.io and app.kubernetes.io are the operator's.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('georegister.io/') && !k.startsWith('app.kubernetes.io/'))",message="labels of georegister.io/ and app.kubernetes.io/ are the operator's: remove them"
	Labels map[string]string `json:"labels,omitempty"`

	// Env is added to the environment of the member's container. Names that begin with GEOREGISTER_ are the
	// operator's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(e, !e.name.startsWith('GEOREGISTER_'))",message="variables that begin with GEOREGISTER_ are the operator's: remove them"
	Env []corev1.EnvVar `json:"env,omitempty"`
}

// Monitoring asks for objects of the Prometheus operator.
type Monitoring struct {
	// Enabled asks for a PodMonitor and a PrometheusRule. Where the apiserver lacks these kinds, the condition
	// MonitoringReady says so and nothing else is held up.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Labels are added to both objects: a Prometheus chooses by them what it reads.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('georegister.io/') && !k.startsWith('app.kubernetes.io/'))",message="labels of georegister.io/ and app.kubernetes.io/ are the operator's: remove them"
	Labels map[string]string `json:"labels,omitempty"`
}

// Durability says when an operation is acknowledged.
// +kubebuilder:validation:Enum=Sync;Interval;Memory
type Durability string

// The durabilities.
const (
	// Sync acknowledges after the state is on disk, by fsync.
	Sync Durability = "Sync"
	// Interval acknowledges after the state is written and syncs every interval: a machine that crashes
	// loses at most that much, and comes back as a newcomer.
	Interval Durability = "Interval"
	// Memory keeps nothing: a member that restarts comes back as a newcomer.
	Memory Durability = "Memory"
)

// Duration is a time span in Go's notation, such as 72ms or 1.5s.
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$')",message="not a duration: write it like 72ms or 1.5s"
type Duration string

// Storage says what survives.
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || (has(self.durability) && self.durability == 'Interval')",message="interval needs durability: Interval; remove it, or set durability"
type Storage struct {
	// Durability says when an operation is acknowledged. It can't be changed to or from Memory, which has no
	// volumes. Default: Sync.
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// Interval is the time between syncs with durability Interval, up to 1m. Default: 50ms.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$') || duration(self) >= duration('1ms') && duration(self) <= duration('1m')",message="interval must be between 1ms and 1m"
	Interval Duration `json:"interval,omitempty"`

	// Size of each member's volume. It may grow, and shrink only before the cluster is founded. Without meaning with
	// durability Memory. Default: 10Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be more than nothing, such as 10Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// Class is the StorageClass of the volumes. It can be changed before the cluster is founded, when volumes that
	// nobody has used are made again; not later. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`

	// TransferRate is how many bytes of state a member fetches a second when it joins, over all its shards, from 64Ki
	// to 1Ti. A higher rate ends a change of members sooner and leaves less for clients meanwhile. Default: 32Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="transferRate must be between 64Ki and 1Ti: bytes a second"
	TransferRate *resource.Quantity `json:"transferRate,omitempty"`

	// Cache is how much memory each member keeps records of its volume in that it has read or written, from 16Mi to 1Ti
	// and less than the member's memory limit. What is not in it is read from the volume. Without meaning with
	// durability Memory, which keeps everything. Default: a quarter of the member's memory limit, which spec.resources
	// sets; without one, a sixteenth of the node's memory, 1Gi at most.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="cache must be between 16Mi and 1Ti"
	Cache *resource.Quantity `json:"cache,omitempty"`

	// Retention says what becomes of the volumes when the resource is deleted: Retain keeps them, and a resource
	// of the same name takes them up again; Delete deletes them, and the data with them. Default: Retain.
	// +optional
	Retention Retention `json:"retention,omitempty"`
}

// Retention says what becomes of the volumes when the resource is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type Retention string

// The retentions.
const (
	// Retain keeps the volumes and the view.
	Retain Retention = "Retain"
	// Delete deletes them with the resource.
	Delete Retention = "Delete"
)

// Limits bound what a client may store, and what clients may make a member hold. Larger keys and values are refused
// with the limit in the message.
// +kubebuilder:validation:XValidation:rule="!has(self.clientMemory) || quantity(string(self.clientMemory)).asApproximateFloat() >= 16.0 * double(has(self.valueBytes) ? self.valueBytes : 1048576)",message="clientMemory must be at least 16 times valueBytes (absent, valueBytes is 1048576), so that several commands with the largest values have room"
type Limits struct {
	// KeyBytes is the length of the longest key. Default: 4096.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	KeyBytes *int32 `json:"keyBytes,omitempty"`

	// ValueBytes is the size of the largest value. Default: 1048576.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777216
	ValueBytes *int32 `json:"valueBytes,omitempty"`

	// ClientMemory is how much memory all clients of a member may make it hold at a time: commands and messages of gRPC
	// that are not finished or not answered, and replies that they do not read. Over it the connections that hold most
	// are closed first. From 64Mi to 1Ti, at least 16 times valueBytes, and less than the member's memory limit.
	// Default: a quarter of the memory that the member has, 1Gi at most.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="clientMemory must be between 64Mi and 1Ti"
	ClientMemory *resource.Quantity `json:"clientMemory,omitempty"`
}
