// Package world is what the operator sees of one cluster at one moment: the resource, its objects and what its
// members say. Decisions are functions of it.
package world

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Snapshot is one cluster as it was observed. Whoever decides changes nothing in it.
type Snapshot struct {
	Cluster *v1alpha1.GeoRegisterCluster
	Now     time.Time
	// ClusterID is the identity of the stored data: the record's, else that of retained volumes, else a new one.
	ClusterID string
	Record    Record
	// Shards is how many members are started with, as the boot configuration of this resource has it; 0: there is none
	// yet.
	Shards int
	// Members is everybody of whom anything was seen: named by the record, by a StatefulSet, a pod, a volume;
	// by id, each once.
	Members []Member
	// Witnesses is what was seen of witnesses with pods of their own, likewise. They have no Report.
	Witnesses []Member
	// Sites are those that have a Service.
	Sites []string
	// Taken are objects of names that are this cluster's, and that are somebody else's.
	Taken []Taken
	// Former names objects of a deleted resource of the same name that are about to be removed with it.
	Former []string
	// Stored says of each volume which cluster stored on it, where these are several and nothing tells which of them
	// this one is.
	Stored []string
	// Zones are the zones of the cluster's nodes by the node's name. ZonesKnown is false where the operator
	// may not read nodes.
	Zones      map[string]Zone
	ZonesKnown bool
	// EmptyPools are the sites whose node pool no node has, where the operator may read nodes.
	EmptyPools []string
	// Monitoring says which kinds of the Prometheus operator the apiserver has.
	Monitoring MonitoringKinds
	// Emulation is what emulates the network between the sites.
	Emulation Emulation
	// Settings are the operator's own.
	Settings Settings
}

// Settings are what the operator was started with.
type Settings struct {
	DefaultImage  string // of members where neither the resource nor a running member says another
	ClusterDomain string // of the cluster's DNS, such as cluster.local
	Namespace     string // where the operator runs: its pods may reach the admin port
	Version       string
	// LostAfter is how long a member's pod may be without its node or volume before the member counts as lost.
	LostAfter time.Duration
}

// MonitoringKinds are the kinds of the Prometheus operator that the apiserver has.
type MonitoringKinds struct{ PodMonitor, PrometheusRule bool }

// Zone is where a node is.
type Zone struct {
	Name   string            // its label topology.kubernetes.io/zone, or empty
	Labels map[string]string // all of the node
	Closed bool              // nothing new is placed there: somebody is about to empty it
}

// Taken is an object that has the name of one that the cluster is to have, and is not the cluster's.
type Taken struct {
	Kind, Name string
	Whose      string // for people
	Stored     bool   // it holds what another cluster stored, so it can't be given to this one
	Flaw       string // why it can't be used though it is this cluster's, and what to do; empty: it is somebody else's
	// Pods says that members' pods would use it, or be left without what it stands in the way of: none is started or
	// restarted.
	Pods bool
}

// Record is the object NAME--view: the view as it was decided, before anyone was told.
type Record struct {
	Exists          bool
	View            view.View
	UID             types.UID
	ResourceVersion string
	// Problem says why the object can't be read as a record, or is empty. Such a record is rebuilt.
	Problem string
	// Astray says that its labels or its owner are not as they should be: it would be lost, or outlive the
	// resource, against what the user said.
	Astray bool
	// Taken says whose an object of its name is that is not this cluster's, or is empty. Then there is no record.
	Taken string
}

// Member is what was seen of one member.
type Member struct {
	ID          view.MemberID
	Site        string
	StatefulSet *appsv1.StatefulSet
	Pod         *corev1.Pod
	Volume      *corev1.PersistentVolumeClaim
	// VolumeNode is the node that the bound volume is tied to, or empty; with NodeGone that node is no more.
	VolumeNode string
	NodeGone   bool
	// Refused is why the apiserver refused the volume as it was asked for last, or empty.
	Refused string
	// Warnings are what the apiserver's events say of those of the objects above that keep its pod from running, each
	// of its kind at most once.
	Warnings []Warning
	// Report is the member's own word, nil while it is silent; Silence then says why.
	Report  *Report
	Silence string
	// SilentFor is how long this operator has asked it in vain; zero where it answers, or was not asked before.
	SilentFor time.Duration
	// Witness is the word of the witness in its pod, of protocols that have some, or of the witness that this is; nil
	// while that is silent, and WitnessSilence then says why.
	Witness        *membership.WitnessReport
	WitnessSilence string
}

// Warning is the latest event of the type Warning of an object.
type Warning struct{ Kind, Reason, Message string }

// Warning returns the warning of the object of a kind, or nil.
func (m *Member) Warning(kind string) *Warning {
	for i := range m.Warnings {
		if m.Warnings[i].Kind == kind {
			return &m.Warnings[i]
		}
	}
	return nil
}

// Report is what a member said of itself just now (api/admin).
type Report struct {
	ClusterID   string
	Role        Role
	View        view.View // the one that it holds durably; epoch 0: none yet
	Digest      string
	Disk        string
	Incarnation view.Incarnation
	Version     string
	Quorum      bool // a quorum of its view is in its reach
	Peers       []Peer
	Shards      int
	Voting      int // of its shards
	// Loss is the latest damage that cost it its disk; nil: none did.
	Loss *Loss
	// Change is its part in the change of a joint view.
	Change Change
	// Partitions are its parts, by number, and Witnesses those of its view as it sees them, of protocols with masters.
	Partitions []Part
	Witnesses  []Peer
}

// Loss tells of a damaged disk (api/admin).
type Loss struct {
	Cause string // for people
	Aside string // the directory that keeps what is left of it; empty: there is none
	Over  bool   // the member votes again
}

// Part is a member's part in a partition (api/admin).
type Part struct {
	membership.Part
	Serving    bool   // a master: it serves clients
	Unsynced   uint64 // a master: operations that not all backups are known to hold
	Fast, Slow uint64 // updates submitted to the member that took one round trip, and that took more
	Waits      string // why it is lost or does not serve yet, for people
}

// Change is a member's part in a change of the view (view.View.Transfers, Covered).
type Change struct {
	Settled   bool  // what it had voted on before is finished
	Fetched   bool  // it holds the state that it must fetch
	Bytes     int64 // sent to it so far
	SameBytes int64 // compared, and not sent
	Remaining int64 // bytes, estimated
}

// Peer is another member, or a witness, as this one sees it.
type Peer struct {
	ID        view.MemberID
	Reachable bool
	RTT       time.Duration
	// MinRTT is the shortest round trip to it lately, over about 13 s; zero while none was measured.
	MinRTT time.Duration
}

// Role is what a member may do.
type Role int

// The roles.
const (
	Waiting Role = iota // an empty disk that was given no view yet
	Learner             // takes a state transfer
	Voter               // counts in quorums
	Removed             // a newer view is without it
)

func (r Role) String() string {
	return [...]string{"Waiting", "Learner", "Voter", "Removed"}[r]
}

// Member returns what was seen of a member, or nil.
func (s *Snapshot) Member(id view.MemberID) *Member {
	for i := range s.Members {
		if s.Members[i].ID == id {
			return &s.Members[i]
		}
	}
	return nil
}
