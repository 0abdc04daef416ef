package build

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const (
	// witnessDirectory is the witness's part of the member's volume: they are lost together, as the view says. A
	// dedicated one has the volume for itself.
	witnessDirectory = dataDirectory + "/witness"
	// slotBytes is what a slot takes, with the largest request that is saved: 8.65 MB for 4096 of them, as measured.
	slotBytes = 2112
	// livesPerShard is by what the lives of a witness are bounded: a shard has one there, two while its master changes,
	// and more while one master after the other is lost. What they hold together is bounded for the shards that there
	// are when it starts, their number for all that can ever be split off: a witness that refuses a life costs the
	// shard's updates a round trip.
	livesPerShard = 4
)

// witnessFile is what all witnesses of a cluster are started with (witness reads it); who one is, its arguments say.
type witnessFile struct {
	Cluster     string        `json:"cluster"`
	Directory   string        `json:"directory"`
	Durability  string        `json:"durability"`
	Slots       int           `json:"slots"`
	Lives       int           `json:"lives"`
	MemoryBytes int64         `json:"memoryBytes"`
	Listen      witnessListen `json:"listen"`
}

type witnessListen struct {
	Peer string `json:"peer"`
	HTTP string `json:"http"`
}

// witnessBoot is the file of a cluster's witnesses.
func witnessBoot(in Input) string {
	spec := in.Cluster.Spec
	return text(witnessFile{
		Cluster: in.ClusterID, Directory: witnessDirectory, Durability: string(v1alpha1.Sync),
		Slots: spec.WitnessSlots(), Lives: livesPerShard * v1alpha1.MaxShards,
		MemoryBytes: livesPerShard * witnessMemory(spec),
		Listen:      witnessListen{Peer: everywhere(WitnessPort), HTTP: everywhere(WitnessHTTPPort)},
	})
}

// witnessMemory is what the lives of a witness take that serves every shard, full, in bytes.
func witnessMemory(spec v1alpha1.GeoRegisterClusterSpec) int64 {
	return int64(spec.ShardCount()) * int64(spec.WitnessSlots()) * slotBytes
}

// witnesses are the sidecars of a member's pod: one with a protocol that has witnesses, unless these have pods of their
// own. It starts before the member and ends after it, and the member does not wait for it. The pod is ready when both
// are: another pod is not to be evicted while what a witness saved can't be asked for.
func witnesses(in Input, m view.Member) []corev1.Container {
	if !in.Cluster.Spec.Partitioned() || in.Cluster.Spec.Dedicated() {
		return nil
	}
	sidecar := witness(in, membership.WitnessOf(m.ID))
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return []corev1.Container{sidecar}
}

// witness is the container of one, beside a member or alone.
func witness(in Input, id view.MemberID) corev1.Container {
	return corev1.Container{
		Name:  WitnessContainer,
		Image: in.Image,
		Args: []string{
			"witness", "--config", bootDirectory + "/" + WitnessKey,
			"--self", number(id),
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: witnessRequest(in.Cluster.Spec),
		}},
		SecurityContext: containerSecurity(),
		Ports: []corev1.ContainerPort{
			listens(WitnessPortName, WitnessPort), listens(WitnessHTTPPortName, WitnessHTTPPort),
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: bootVolume, MountPath: bootDirectory, ReadOnly: true},
			{Name: dataVolume, MountPath: dataDirectory},
		},
		// It reads its log, of a few MiB, before it listens: a minute is plenty.
		LivenessProbe:  witnessProbe("/livez", 10, 6),
		ReadinessProbe: witnessProbe("/readyz", 2, 2),
	}
}

// witnessRequest is the memory that a witness requests, in whole MiB: of the process, and of every shard's life once.
// It rarely serves them all, so that some have two for a moment is within it.
func witnessRequest(spec v1alpha1.GeoRegisterClusterSpec) resource.Quantity {
	const base, mebibyte = 48, 1 << 20
	return resource.MustParse(fmt.Sprintf("%dMi", base+(witnessMemory(spec)+mebibyte-1)/mebibyte))
}

func witnessProbe(path string, everySeconds, failures int32) *corev1.Probe {
	p := probe(path, everySeconds, failures)
	p.HTTPGet.Port = intstr.FromString(WitnessHTTPPortName)
	return p
}

// WitnessAddress is where members reach the witness beside a member, host:port.
func WitnessAddress(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, m view.Member) string {
	return fmt.Sprintf("%s:%d", host(cluster, settings, m), WitnessPort)
}
