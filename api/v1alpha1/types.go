// Package v1alpha1 is the GeoRegisterCluster resource: its types, defaults and validation. The embedded
// `georegister dev` and the operator read the same manifest through it.
// +kubebuilder:object:generate=true
// +groupName=georegister.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What manifests write as apiVersion and kind.
const (
	APIVersion = "georegister.io/v1alpha1"
	Kind       = "GeoRegisterCluster"
)

// GeoRegisterCluster is a replicated store whose members live at several sites.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=grc,categories={all,georegister}
// +kubebuilder:printcolumn:name=Protocol,type=string,JSONPath=`.spec.protocol`
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Sites,type=integer,JSONPath=`.status.siteCount`
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name=Quorum,type=string,JSONPath=`.status.quorum`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 20",message="metadata.name must have at most 20 characters: names of objects are made from it"
type GeoRegisterCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GeoRegisterClusterSpec `json:"spec"`

	// Status is what the operator saw last. Nothing is decided from it.
	// +optional
	Status GeoRegisterClusterStatus `json:"status,omitzero"`
}

// GeoRegisterClusterList is a list of clusters.
// +kubebuilder:object:root=true
type GeoRegisterClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GeoRegisterCluster `json:"items"`
}

// GeoRegisterClusterSpec is what the user asks for.
type GeoRegisterClusterSpec struct {
	// Protocol is the replication protocol. It can't be changed later.
	// +kubebuilder:validation:Enum=ABD;Gryff
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.protocol can't be changed: create a new cluster"
	Protocol string `json:"protocol"`

	// Sites are the places where members live. All members together must be 3, 5 or 7.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Sites []Site `json:"sites"`

	// Shards is the number of hash ranges of keys, each with its own instance of the protocol. It must be
	// the same everywhere and for ever, so it can't be changed later. Default: 4.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.shards can't be changed: create a new cluster"
	Shards *int32 `json:"shards,omitempty"`

	// Storage says what survives.
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// Limits bound what a client may store.
	// +optional
	Limits Limits `json:"limits,omitempty"`

	PodSpec `json:",inline"`

	// Monitoring asks for objects of the Prometheus operator.
	// +optional
	Monitoring Monitoring `json:"monitoring,omitempty"`

	// Paused stops the operator from changing anything of this cluster: nothing is created, updated, repaired
	// or replaced. The members serve on, and the status goes on telling how they are.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// DeletionProtection refuses the deletion of this resource until it is set to false.
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`

	// WAN is the network between the sites, to be emulated. Without it nothing is delayed.
	// +optional
	WAN *WAN `json:"wan,omitempty"`
}

// Site is a place where members live: a region or a zone.
type Site struct {
	// Name is a DNS label.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Members is how many members live at the site. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	Members *int32 `json:"members,omitempty"`

	// NodePool names the nodes where the site's members may run. Without it they may run anywhere, which
	// emulates a site on whatever nodes there are.
	// +optional
	NodePool *NodePool `json:"nodePool,omitempty"`
}

// NodePool is the nodes that bear a label.
type NodePool struct {
	// Key of the label. Default: topology.kubernetes.io/zone.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`

	// Value of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value"`
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
type Duration string

// Storage says what survives.
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || (has(self.durability) && self.durability == 'Interval')",message="interval needs durability: Interval"
type Storage struct {
	// Durability says when an operation is acknowledged. Default: Sync.
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// Interval is the time between syncs with durability Interval, up to 1m. Default: 50ms.
	// +optional
	Interval Duration `json:"interval,omitempty"`

	// Size of each member's volume. It may grow. Without meaning with durability Memory. Default: 10Gi.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// Class is the StorageClass of the volumes. It can't be changed later. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`

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

// Limits bound what a client may store. Larger keys and values are refused with the limit in the message.
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
}

// WAN is the network between the sites: a profile by name, or a link for every pair of sites.
// +kubebuilder:validation:XValidation:rule="has(self.profile) != has(self.links)",message="give either profile or links"
type WAN struct {
	// Profile is the topology of a paper, whose sites it names: gryff (ca, va, ir, or, jp: California,
	// Virginia, Ireland, Oregon, Japan) or rss (ca, va, ir).
	// +optional
	// +kubebuilder:validation:Enum=gryff;rss
	Profile string `json:"profile,omitempty"`

	// Links has one entry for every pair of sites, in either order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=21
	Links []Link `json:"links,omitempty"`
}

// Link is the network between two sites.
type Link struct {
	// Between names the two sites.
	// +listType=set
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=15
	Between []string `json:"between"`

	// RTT is the round-trip time, up to 10s; each direction takes half of it.
	RTT Duration `json:"rtt"`

	// Jitter is how much longer a message may take, at random, in each direction. Default: 0s.
	// +optional
	Jitter Duration `json:"jitter,omitempty"`
}
