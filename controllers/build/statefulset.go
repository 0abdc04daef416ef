package build

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

const (
	// user is who the image runs as; it is nobody, and owns nothing on a node.
	user = 65532

	// A member that is told to stop is first given the time in which it disappears from the endpoints, so that
	// fewer clients meet a closed listener. Then it answers what is in flight, for up to 5 s, and closes its disk.
	leaveSeconds = 2
	graceSeconds = 30
)

// Names of a pod's volumes.
const (
	bootVolume = "boot"
	dataVolume = "data"
)

// statefulSet runs one member.
func statefulSet(in Input, m view.Member) *appsv1.StatefulSet {
	selector := joined(selected(in.Cluster.Name), map[string]string{SiteLabel: m.Site, MemberLabel: number(m.ID)})
	template := podTemplate(in, m.Site, podLabels(in.Cluster, m), SpecHash(in.Cluster))
	pod := &template.Spec
	pod.Affinity = affinity(in.Cluster, m.Site)
	pod.InitContainers = witnesses(in, m)
	pod.Containers = []corev1.Container{container(in, m)}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: dataVolume, VolumeSource: dataSource(in, m)})
	mountKeys(in, pod)
	return oneReplica(in, StatefulSetName(in.Cluster.Name, m), MemberLabels(in.Cluster.Name, m), selector, template)
}

// oneReplica is the StatefulSet of one member or one dedicated witness. It has one replica, so that any can be
// replaced, not just the last; and it leaves running pods alone (OnDelete), so that nothing but the operator restarts
// one, one at a time.
func oneReplica(
	in Input, name string, labels, selector map[string]string, template corev1.PodTemplateSpec,
) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		TypeMeta:   kind("apps/v1", "StatefulSet"),
		ObjectMeta: owned(in, name, labels),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    new(int32(1)),
			ServiceName: PeersName(in.Cluster.Name),
			Selector:    &metav1.LabelSelector{MatchLabels: selector},
			// a pod that never gets ready must not hold its next one
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			RevisionHistoryLimit: new(int32(2)),
			Template:             template,
		},
	}
}

// podTemplate is what the pods of members and of dedicated witnesses have in common: what the user wrote, and the boot
// files.
func podTemplate(in Input, site string, labels map[string]string, hash string) corev1.PodTemplateSpec {
	user := in.Cluster.Spec.PodTemplate.DeepCopy() // the objects share nothing with the resource
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      joined(user.Labels, labels),
			Annotations: joined(user.Annotations, map[string]string{SpecHashAnnotation: hash}),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:           MembersName(in.Cluster.Name),
			AutomountServiceAccountToken: new(false),
			// variables of every Service in the namespace say nothing to a member
			EnableServiceLinks: new(false),
			SecurityContext:    podSecurity(),
			NodeSelector:       NodeSelector(in.Cluster, site),
			Tolerations:        user.Tolerations,
			PriorityClassName:  user.PriorityClassName,

			TerminationGracePeriodSeconds: new(int64(graceSeconds)),

			Volumes: []corev1.Volume{
				{Name: bootVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: BootName(in.Cluster.Name)},
				}}},
			},
		},
	}
}

func container(in Input, m view.Member) corev1.Container {
	return corev1.Container{
		Name:            Container,
		Image:           in.Image,
		Args:            arguments(m),
		Env:             in.Cluster.Spec.PodTemplate.DeepCopy().Env,
		Resources:       resources(in.Cluster),
		SecurityContext: containerSecurity(),
		Ports: []corev1.ContainerPort{
			listens(PeerPortName, PeerPort), listens(GRPCPortName, GRPCPort), listens(RedisPortName, RedisPort),
			listens(AdminPortName, AdminPort), listens(HTTPPortName, HTTPPort),
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: bootVolume, MountPath: bootDirectory, ReadOnly: true},
			{Name: dataVolume, MountPath: dataDirectory},
		},
		// A large disk takes its time to open: ten minutes, and a look every second for the many that are quick.
		StartupProbe: probe("/healthz", 1, 600),
		// Nothing but a process that hangs is restarted: for a minute, since a restart heals little else.
		LivenessProbe: probe("/healthz", 10, 6),
		// Ready is who serves its role, quorum or not (that is /quorumz): members that are unready since another one
		// is gone would disarm the disruption budget.
		ReadinessProbe: probe("/readyz", 2, 2),
		Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: leaveSeconds}},
		},
	}
}

// arguments say which member of the boot file's cluster this one is.
func arguments(m view.Member) []string {
	return []string{
		"replica", "--config", bootDirectory + "/" + BootKey,
		"--self", number(m.ID), "--site", m.Site,
	}
}

func listens(name string, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
}

func probe(path string, everySeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(HTTPPortName)},
		},
		PeriodSeconds: everySeconds, TimeoutSeconds: 5, FailureThreshold: failures,
	}
}

// resources are what the user wrote, or requests that keep a member from being the first to be evicted.
func resources(cluster *v1alpha1.GeoRegisterCluster) corev1.ResourceRequirements {
	written := cluster.Spec.Resources
	if written.Requests == nil && written.Limits == nil && written.Claims == nil {
		written.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		}
	}
	return *written.DeepCopy()
}

// podSecurity and containerSecurity are the restricted pod security standard. The volume's group is changed only
// where it is not the right one: files of a large disk are many.
func podSecurity() *corev1.PodSecurityContext {
	id := int64(user)
	return &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
