package message

import (
	"fmt"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// NameTaken is the reason of conditions and events where something waits for an object of somebody else to go.
const NameTaken = "NameTaken"

// ObjectUnusable is that where the object is the cluster's, and its content is of no use.
const ObjectUnusable = "ObjectUnusable"

// Taken says for people which object stands in the way of a cluster's, whose it is, and what to do.
func Taken(cluster *v1alpha1.GeoRegisterCluster, t world.Taken) string {
	switch {
	case t.Flaw != "":
		return fmt.Sprintf("%s %s/%s can't be used, and is left as it is: %s", t.Kind, cluster.Namespace, t.Name,
			t.Flaw)
	case t.Stored:
		return LeftAlone(cluster, t) + ", or create this cluster under another name"
	}
	return fmt.Sprintf("%s, create this cluster under another name, "+
		"or, if no controller owns the object and this cluster is to have it, annotate it with %s=%s",
		LeftAlone(cluster, t), build.AdoptAnnotation, cluster.Name)
}

// WhyTaken is the reason of a condition or an event about such an object.
func WhyTaken(t world.Taken) string {
	if t.Flaw != "" {
		return ObjectUnusable
	}
	return NameTaken
}

// LeftAlone says for people that an object is somebody else's.
func LeftAlone(cluster *v1alpha1.GeoRegisterCluster, t world.Taken) string {
	return fmt.Sprintf("%s %s/%s is not this cluster's (%s) and is left alone: delete or rename it", t.Kind,
		cluster.Namespace, t.Name, t.Whose)
}
