package build

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/api/v1alpha1"
)

// Where things are in a member's container.
const (
	bootDirectory = "/etc/georegister"
	dataDirectory = "/data" // all that a member writes to
)

// bootFile is what all members of a cluster are started with (replica/node reads it); who a member is, its
// arguments say. It has no view: a member keeps its own on its disk, and a copy here could only be older.
type bootFile struct {
	Cluster    string `json:"cluster"`
	Protocol   string `json:"protocol"`
	Shards     int    `json:"shards"`
	Directory  string `json:"directory"`
	Durability string `json:"durability"`
	FlushEvery string `json:"flushEvery,omitempty"`
	// TransferRate is written where it is asked for alone: members of an older image do not know it.
	TransferRate int `json:"transferRate,omitempty"` // bytes a second
	// Cache is so too.
	Cache int `json:"cache,omitempty"` // bytes
	// FaultTolerance is so too.
	FaultTolerance int `json:"faultTolerance,omitempty"`
	// ErasureCoding is so too.
	ErasureCoding *bootErasureCoding `json:"erasureCoding,omitempty"`
	// TokenKeys is the file with the keys of a protocol with sessions.
	TokenKeys string `json:"tokenKeys,omitempty"`

	Limits bootLimits `json:"limits"`
	Listen bootListen `json:"listen"`
}

type bootErasureCoding struct {
	DataFragments  int `json:"dataFragments"`
	ThresholdBytes int `json:"thresholdBytes"`
}

type bootLimits struct {
	KeyBytes   int `json:"keyBytes"`
	ValueBytes int `json:"valueBytes"`
	// ClientMemory is written where it is asked for alone: by default members choose.
	ClientMemory int `json:"clientMemory,omitempty"`
}

type bootListen struct {
	Peer  string `json:"peer"`
	GRPC  string `json:"grpc"`
	Redis string `json:"redis"`
	Admin string `json:"admin"`
	HTTP  string `json:"http"`
}

// boot is the ConfigMap that is mounted into every member. It carries the identity of the cluster too, so that
// it is found before anything is founded.
func boot(in Input) *corev1.ConfigMap {
	spec := in.Cluster.Spec
	limits := spec.Limits.Register()
	file := bootFile{
		Cluster: in.ClusterID, Protocol: spec.Protocol, Shards: in.Founded(),
		Directory: dataDirectory, Durability: string(spec.Storage.DurabilityOrDefault()),
		Limits:         bootLimits{limits.KeyBytes, limits.ValueBytes, spec.Limits.ClientBytes()},
		FaultTolerance: spec.ToldFaults(),
		Listen: bootListen{
			Peer: everywhere(PeerPort), GRPC: everywhere(GRPCPort), Redis: everywhere(RedisPort),
			Admin: everywhere(AdminPort), HTTP: everywhere(HTTPPort),
		},
	}
	if spec.Storage.DurabilityOrDefault() == v1alpha1.Interval {
		file.FlushEvery = spec.Storage.SyncInterval().String()
	}
	if e := spec.ErasureCoding(); e != nil {
		file.ErasureCoding = &bootErasureCoding{DataFragments: int(e.DataFragments), ThresholdBytes: e.Threshold()}
	}
	if spec.Regular() {
		file.TokenKeys = keysDirectory + "/" + KeysKey
	}
	if spec.Storage.TransferRate != nil {
		file.TransferRate = spec.Storage.TransferBytes()
	}
	file.Cache = spec.Storage.CacheBytes()
	meta := owned(in, BootName(in.Cluster.Name), Labels(in.Cluster.Name))
	meta.Annotations = map[string]string{ClusterIDAnnotation: in.ClusterID}
	data := map[string]string{BootKey: text(file)}
	if spec.Partitioned() {
		data[WitnessKey] = witnessBoot(in)
	}
	return &corev1.ConfigMap{TypeMeta: kind("v1", "ConfigMap"), ObjectMeta: meta, Data: data}
}

// BootShards is how many shards members are started with by a boot ConfigMap; 0 if it is damaged, which is mended.
func BootShards(boot *corev1.ConfigMap) int {
	var file bootFile
	if err := yaml.Unmarshal([]byte(boot.Data[BootKey]), &file); err != nil {
		return 0
	}
	return max(0, file.Shards)
}

// everywhere listens at all addresses of the pod, of both families.
func everywhere(port int) string { return fmt.Sprintf(":%d", port) }

// text is a value as YAML. It panics on what has none: the values here are strings and numbers.
func text(value any) string {
	data, err := yaml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("build: %T has no YAML: %v", value, err))
	}
	return string(data)
}
