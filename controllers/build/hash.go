package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/georegister/georegister/api/v1alpha1"
)

// SpecHash tells whether what a user wrote reaches pods in another form than before: a pod whose annotation
// differs is to be replaced. It covers the written resource alone, neither defaults nor what is rendered from
// it, so that no new operator restarts a member. Outside are the sites and the volumes, which pods keep for
// life, the rate of transfers, which newcomers read when they start, and the WAN and the monitoring, which reach none.
func SpecHash(cluster *v1alpha1.GeoRegisterCluster) string {
	spec := cluster.Spec
	written := map[string]any{ // its JSON is sorted by key
		"image": spec.Image, "resources": spec.Resources, "podTemplate": spec.PodTemplate,
		"durability": spec.Storage.Durability, "interval": spec.Storage.Interval, "limits": spec.Limits,
	}
	if w := spec.Witness(); w != nil && !spec.Dedicated() { // where there are none, pods know nothing of them
		written["witness"] = w
	}
	return hashOf(written)
}

// hashOf is the start of the hash of what a user wrote, by keys.
func hashOf(written map[string]any) string {
	text, err := json.Marshal(written)
	if err != nil {
		panic(fmt.Sprintf("build: what was decoded from JSON has none: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
