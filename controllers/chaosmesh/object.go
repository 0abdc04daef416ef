// Package chaosmesh makes the Chaos Mesh objects of a wide-area network between sites, and reads what they say.
// Everything that the project knows of Chaos Mesh's types is here, since they change.
package chaosmesh

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	chaos "github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// Labels of an object beside those of all that belongs to a cluster: the sites of its direction.
const (
	FromLabel = "georegister.io/from"
	ToLabel   = "georegister.io/to"
)

// Kind is the kind of Chaos Mesh that is used.
var Kind = chaos.SchemeGroupVersion.WithKind(chaos.KindNetworkChaos)

// hashLength is how many characters of an object's name tell it from others, 5 bits each.
const hashLength = 10

// Site is a site with the pods there are of it, which have addresses.
type Site struct {
	Name string
	Pods []*corev1.Pod
}

// Object is what emulates the network from one site to another of a valid resource that has a UID, without a status;
// nil if nothing is to be emulated. Its name is another one whenever the pods or what is to be emulated are: Chaos Mesh
// looks for pods once, and an object can't be changed.
func Object(cluster *v1alpha1.GeoRegisterCluster, from, to Site) *unstructured.Unstructured {
	way := cluster.Spec.Way(from.Name, to.Name)
	if way == (v1alpha1.Way{}) {
		return nil
	}
	labels := build.Labels(cluster.Name)
	labels[FromLabel], labels[ToLabel] = from.Name, to.Name
	object := &chaos.NetworkChaos{
		TypeMeta: metav1.TypeMeta{APIVersion: Kind.GroupVersion().String(), Kind: Kind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace,
			Name:      build.NetworkName(cluster.Name, from.Name, to.Name, hash(cluster, from, to, way)),
			Labels:    labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Name: cluster.Name,
				UID: cluster.UID, Controller: new(true),
			}},
		},
		Spec: chaos.NetworkChaosSpec{
			PodSelector: pods(cluster, from.Name),
			// Delay, loss and rate are one action: of two objects for the same pods, one counts, and chance says which.
			Action: chaos.NetemAction,
			// The other direction is another object. "both" would delay each direction by as much.
			Direction:   chaos.To,
			Target:      new(pods(cluster, to.Name)),
			TcParameter: traffic(way),
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(fmt.Sprintf("chaosmesh: an object of Chaos Mesh's own type can't be converted: %v", err))
	}
	delete(content, "status") // there is no subresource: whoever applies a status owns it
	delete(content["metadata"].(map[string]any), "creationTimestamp")
	return &unstructured.Unstructured{Object: content}
}

// pods are those of a site that run. One that can't be started for long must not keep the others from being chosen.
func pods(cluster *v1alpha1.GeoRegisterCluster, site string) chaos.PodSelector {
	return chaos.PodSelector{Mode: chaos.AllMode, Selector: chaos.PodSelectorSpec{
		GenericSelectorSpec: chaos.GenericSelectorSpec{
			Namespaces: []string{cluster.Namespace},
			LabelSelectors: map[string]string{
				build.NameLabel: build.Application, build.ClusterLabel: cluster.Name, build.SiteLabel: site,
			},
		},
		PodPhaseSelectors: []string{string(corev1.PodRunning)},
	}}
}

// none is what Chaos Mesh writes for what is not there. Its webhook would fill it in; without it, the daemon fails.
const (
	noJitter      = "0ms"
	noCorrelation = "0"
)

// traffic is a way in Chaos Mesh's words, of which each says nothing that is not asked for.
func traffic(way v1alpha1.Way) (p chaos.TcParameter) {
	if way.Delay > 0 || way.Jitter > 0 {
		// netem spreads to both sides of the delay, and what is asked for is on top of it. Durations are compared as
		// strings on the way to netem, where 0.5ms is less than 0ms and zero may be left out together with the jitter:
		// whole microseconds, and one at least.
		jitter := (way.Jitter / 2).Truncate(time.Microsecond)
		p.Delay = &chaos.DelaySpec{
			Latency: microseconds(max(way.Delay+jitter, time.Microsecond)), Jitter: noJitter,
			Correlation: noCorrelation,
		}
		if jitter > 0 {
			p.Delay.Jitter = microseconds(jitter)
		}
	}
	if way.Loss > 0 {
		percent := strconv.FormatFloat(float64(way.Loss)/1000, 'f', -1, 64)
		p.Loss = &chaos.LossSpec{Loss: percent, Correlation: noCorrelation}
	}
	if way.Rate > 0 {
		p.Rate = &chaos.RateSpec{Rate: strconv.FormatInt(way.Rate, 10) + "bit"}
	}
	return p
}

// microseconds rounds up: a round trip must not be shorter than declared.
func microseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Microsecond-1)/time.Microsecond), 10) + "us"
}

// hash is of all that an object depends on. It tells objects apart, also those of other namespaces: the names of sets
// of addresses are made from it alone.
func hash(cluster *v1alpha1.GeoRegisterCluster, from, to Site, way v1alpha1.Way) string {
	of := sha256.New()
	_, _ = fmt.Fprintf(of, "%s\n%s\n%d %d %d %d\n", // a hash takes everything
		cluster.Namespace, cluster.UID, way.Delay, way.Jitter, way.Loss, way.Rate)
	for _, site := range []Site{from, to} {
		_, _ = fmt.Fprintf(of, "site %s\n", site.Name)
		var lines []string
		for _, pod := range site.Pods {
			lines = append(lines, fmt.Sprintf("%s %s\n", pod.UID, pod.Status.PodIP))
		}
		slices.Sort(lines)
		_, _ = of.Write([]byte(strings.Join(lines, "")))
	}
	text := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(of.Sum(nil))
	return strings.ToLower(text[:hashLength])
}
