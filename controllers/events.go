package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/status"
)

// events tells people what the operator did, and what it could not do.
type events struct{ recorder recorder.EventRecorder }

// tell tells events of a cluster, whatever version of it: the recorder counts the same event of one object, and
// of versions of it apart.
func (e events) tell(cluster *v1alpha1.GeoRegisterCluster, all ...message.Event) {
	of := &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name, UID: cluster.UID},
	}
	for _, event := range all {
		e.recorder.Eventf(of, nil, event.Type, event.Reason, event.Action, "%s", message.Bounded(event.Message))
	}
}

// failed tells an event of what could not be done, for the action that it names. That it is tried again and fails
// again is counted by the recorder, and written every few minutes.
func (e events) failed(cluster *v1alpha1.GeoRegisterCluster, action string, came error) {
	if failure := apply.Failure(came); failure != nil {
		e.tell(cluster,
			message.Warning(status.OperatorFailed, action, "The operator tries again: "+reason(failure)))
	}
}
