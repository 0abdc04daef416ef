package controllers

// What the operator may do, from which `make manifests` generates config/rbac/role.yaml. It is bound in the namespaces
// whose clusters are managed. Server-side apply needs create beside patch: the apiserver asks for it when the object is
// not there yet. What is not the operator's is in no cache, so it is asked for by its name (get) before an object is
// made.
//
// +kubebuilder:rbac:groups=georegister.io,resources=georegisterclusters,verbs=list;watch,roleName=georegister-operator
// +kubebuilder:rbac:groups=georegister.io,resources=georegisterclusters/status,verbs=update,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update;patch,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create,roleName=georegister-operator
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete,roleName=georegister-operator
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch,roleName=georegister-operator
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch,roleName=georegister-operator
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;prometheusrules,verbs=get;list;watch;create;patch;delete,roleName=georegister-operator
// +kubebuilder:rbac:groups=chaos-mesh.org,resources=networkchaos,verbs=get;list;watch;create;update;patch;delete,roleName=georegister-operator
// +kubebuilder:rbac:groups="",resources=events,verbs=list,roleName=georegister-operator
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=georegister-operator
//
// Where nodes and volumes are may be read if an administrator agrees: they belong to no namespace. Without it,
// ToleratesZoneLoss is Unknown, and a member whose node is gone is not replaced.
//
// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumes,verbs=list;watch,roleName=georegister-operator-nodes
