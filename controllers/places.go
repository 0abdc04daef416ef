package controllers

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/world"
)

// place says where the volumes and pods are, where the operator may know.
func (l *look) place() {
	if !l.places {
		return
	}
	l.Zones, l.ZonesKnown = map[string]world.Zone{}, true
	for _, all := range [][]world.Member{l.Members, l.Witnesses} {
		for i := range all {
			l.placeOne(&all[i])
		}
	}
	for _, site := range l.Cluster.Spec.Sites {
		if site.NodePool != nil && !l.nodeOf(site.NodePool.KeyOrDefault(), site.NodePool.Value) {
			l.EmptyPools = append(l.EmptyPools, site.Name)
		}
	}
}

func (l *look) placeOne(m *world.Member) {
	if m.Pod != nil && m.Pod.Spec.NodeName != "" {
		l.node(m.Pod.Spec.NodeName)
	}
	if m.Volume == nil || m.Volume.Spec.VolumeName == "" {
		return
	}
	volume := &corev1.PersistentVolume{}
	l.get(l.client, "volume", client.ObjectKey{Name: m.Volume.Spec.VolumeName}, volume)
	key, value := tiedTo(volume)
	m.VolumeNode, m.NodeGone = value, value != "" && !l.nodeOf(key, value)
}

// nodeOf reports whether a node exists that a volume is tied to, by its name or by a label, or that is of a pool. Its
// hostname may be another one than its name.
func (l *look) nodeOf(key, value string) bool {
	if key == metav1.ObjectNameField {
		return l.node(value)
	}
	var nodes corev1.NodeList
	l.list(l.client, fmt.Sprintf("nodes with %s=%s", key, value), &nodes, client.MatchingLabels{key: value},
		client.Limit(1))
	return len(nodes.Items) > 0
}

// node notes where a node is, and reports whether it exists.
func (l *look) node(name string) bool {
	if _, ok := l.Zones[name]; ok {
		return true
	}
	node := &corev1.Node{}
	if !l.get(l.client, "node", client.ObjectKey{Name: name}, node) {
		return false
	}
	l.Zones[name] = world.Zone{
		Name: node.Labels[corev1.LabelTopologyZone], Labels: node.Labels, Closed: node.Spec.Unschedulable,
	}
	return true
}

// tiedTo says, by a label or metadata.name and its value, which is the only node that a volume can be used on; they
// are empty if it can move.
func tiedTo(volume *corev1.PersistentVolume) (key, value string) {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return "", ""
	}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 {
		return "", ""
	}
	for _, e := range slices.Concat(terms[0].MatchExpressions, terms[0].MatchFields) {
		byName := e.Key == corev1.LabelHostname || e.Key == metav1.ObjectNameField
		if byName && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Key, e.Values[0]
		}
	}
	return "", ""
}
