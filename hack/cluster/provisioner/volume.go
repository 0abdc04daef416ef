package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// driver is the name by which StorageClasses ask for this provisioner.
	driver = "georegister.io/local"
	// wanted is set on a claim by Kubernetes: the provisioner that its StorageClass names.
	wanted = "volume.kubernetes.io/storage-provisioner"
	// chosen is set on a claim by the scheduler: the node that its first pod will run on.
	chosen = "volume.kubernetes.io/selected-node"
	// made is set on a volume by its provisioner.
	made = "pv.kubernetes.io/provisioned-by"
)

// provisioner makes, grows and removes volumes below root.
type provisioner struct {
	client client.Client
	root   string
}

// claims reconciles claims: one that waits for this provisioner gets a volume, one that asks for more gets it.
func (p *provisioner) claims() reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		var claim corev1.PersistentVolumeClaim
		if err := p.client.Get(ctx, r.NamespacedName, &claim); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		switch {
		case claim.Annotations[wanted] != driver || claim.DeletionTimestamp != nil:
			return ctrl.Result{}, nil
		case claim.Spec.VolumeName == "" && claim.Annotations[chosen] != "":
			return ctrl.Result{}, p.provision(ctx, &claim)
		case claim.Status.Phase == corev1.ClaimBound:
			return ctrl.Result{}, p.grow(ctx, &claim)
		}
		return ctrl.Result{}, nil
	})
}

// volumes reconciles volumes: one of this provisioner's that was released for good is removed.
func (p *provisioner) volumes() reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		var volume corev1.PersistentVolume
		if err := p.client.Get(ctx, r.NamespacedName, &volume); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		released := volume.Status.Phase == corev1.VolumeReleased &&
			volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
		if volume.Annotations[made] != driver || volume.Spec.Local == nil || !released {
			return ctrl.Result{}, nil
		}
		if err := os.RemoveAll(volume.Spec.Local.Path); err != nil {
			return ctrl.Result{}, fmt.Errorf("remove the data of %s: %w", volume.Name, err)
		}
		return ctrl.Result{}, client.IgnoreNotFound(p.client.Delete(ctx, &volume, client.Preconditions{
			UID: &volume.UID, ResourceVersion: &volume.ResourceVersion,
		}))
	})
}

// provision makes the claim's directory and the volume that tells Kubernetes of it. Its name is the claim's own, so
// that doing it twice makes one volume.
func (p *provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	var class storagev1.StorageClass
	if err := p.client.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, &class); err != nil {
		return fmt.Errorf("read the StorageClass of %s: %w", claim.Name, err)
	}
	var node corev1.Node
	if err := p.client.Get(ctx, client.ObjectKey{Name: claim.Annotations[chosen]}, &node); err != nil {
		return fmt.Errorf("read the node of %s: %w", claim.Name, err)
	}
	name := "pvc-" + string(claim.UID)
	path := filepath.Join(p.root, node.Name, "volumes", name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make the directory of %s: %w", name, err)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{made: driver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: *claim.Spec.Resources.Requests.Storage(),
			},
			AccessModes:                   claim.Spec.AccessModes,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity:                  on(node.Labels[corev1.LabelHostname]),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
	if err := p.client.Create(ctx, volume); err != nil && !errors.IsAlreadyExists(err) {
		return fmt.Errorf("make %s for %s: %w", name, claim.Name, err)
	}
	return nil
}

// grow confirms a claim's growth: first on its volume, then on the claim.
func (p *provisioner) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	asked := *claim.Spec.Resources.Requests.Storage()
	if asked.Cmp(*claim.Status.Capacity.Storage()) <= 0 {
		return nil
	}
	var volume corev1.PersistentVolume
	if err := p.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &volume); err != nil {
		return fmt.Errorf("read the volume of %s: %w", claim.Name, err)
	}
	before := volume.DeepCopy()
	volume.Spec.Capacity[corev1.ResourceStorage] = asked
	if err := p.client.Patch(ctx, &volume, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("grow %s: %w", volume.Name, err)
	}
	claimBefore := claim.DeepCopy()
	claim.Status.Capacity[corev1.ResourceStorage] = asked
	if err := p.client.Status().Patch(ctx, claim, client.MergeFrom(claimBefore)); err != nil {
		return fmt.Errorf("confirm the growth of %s: %w", claim.Name, err)
	}
	return nil
}

// on keeps a volume's pods on the node whose disk holds it.
func on(hostname string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname},
		}}}},
	}}
}
