package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/world"
)

// place says where the volumes and pods are, where the operator may know.
func (o *observer) place(ctx context.Context, s *world.Snapshot) error {
	if !o.places {
		return nil
	}
	s.Zones, s.ZonesKnown = map[string]world.Zone{}, true
	for _, all := range [][]world.Member{s.Members, s.Witnesses} {
		for i := range all {
			if err := o.placeOne(ctx, s, &all[i]); err != nil {
				return err
			}
		}
	}
	for _, site := range s.Cluster.Spec.Sites {
		if site.NodePool == nil {
			continue
		}
		there, err := o.nodeOf(ctx, s, site.NodePool.KeyOrDefault(), site.NodePool.Value)
		if err != nil {
			return err
		}
		if !there {
			s.EmptyPools = append(s.EmptyPools, site.Name)
		}
	}
	return nil
}

func (o *observer) placeOne(ctx context.Context, s *world.Snapshot, m *world.Member) error {
	if m.Pod != nil && m.Pod.Spec.NodeName != "" {
		if _, err := o.node(ctx, s, m.Pod.Spec.NodeName); err != nil {
			return err
		}
	}
	if m.Volume == nil || m.Volume.Spec.VolumeName == "" {
		return nil
	}
	volume := &corev1.PersistentVolume{}
	err := o.client.Get(ctx, types.NamespacedName{Name: m.Volume.Spec.VolumeName}, volume)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read volume %s: %w", m.Volume.Spec.VolumeName, err)
	}
	key, value := tiedTo(volume)
	if m.VolumeNode = value; value == "" {
		return nil
	}
	there, err := o.nodeOf(ctx, s, key, value)
	m.NodeGone = err == nil && !there
	return err
}

// nodeOf reports whether a node exists that a volume is tied to, by its name or by a label, or that is of a pool. Its
// hostname may be another one than its name.
func (o *observer) nodeOf(ctx context.Context, s *world.Snapshot, key, value string) (bool, error) {
	if key == metav1.ObjectNameField {
		return o.node(ctx, s, value)
	}
	var nodes corev1.NodeList
	if err := o.client.List(ctx, &nodes, client.MatchingLabels{key: value}, client.Limit(1)); err != nil {
		return false, fmt.Errorf("look for the node with %s=%s: %w", key, value, err)
	}
	return len(nodes.Items) > 0, nil
}

// node notes where a node is, and reports whether it exists.
func (o *observer) node(ctx context.Context, s *world.Snapshot, name string) (bool, error) {
	if _, ok := s.Zones[name]; ok {
		return true, nil
	}
	node := &corev1.Node{}
	err := o.client.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	zone := world.Zone{
		Name: node.Labels[corev1.LabelTopologyZone], Labels: node.Labels, Closed: node.Spec.Unschedulable,
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			zone.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	s.Zones[name] = zone
	return true, nil
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
