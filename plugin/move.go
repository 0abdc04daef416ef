package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
)

// Move gives the master of a shard a home, by spec.homes, and waits until it is there and serves. An empty site takes
// the home away that the shard was given. If ctx ends before, the move goes on.
func (k *Kubernetes) Move(ctx context.Context, out io.Writer, name string, shard int, site string) error {
	c, err := k.cluster(ctx, name)
	if err != nil {
		return err
	}
	if err := movable(c, shard, site); err != nil {
		return err
	}
	homes := slices.Clone(c.Spec.Homes)
	for len(homes) <= shard {
		homes = append(homes, "")
	}
	homes[shard] = site
	for len(homes) > 0 && homes[len(homes)-1] == "" {
		homes = homes[:len(homes)-1]
	}
	if !slices.Equal(homes, c.Spec.Homes) {
		// The version keeps two moves at once from undoing each other.
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": c.ResourceVersion}, "spec": map[string]any{"homes": homes},
		})
		if err != nil {
			return fmt.Errorf("encode spec.homes: %w", err)
		}
		if err := k.Client.Patch(ctx, c, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			return fmt.Errorf("edit spec.homes of cluster %s: %w", c.Name, err)
		}
	}
	home := c.Spec.Home(shard)
	if home == "" {
		fmt.Fprintf(out, "the master of shard %d is where spec.wan says that updates take least, or nearly so: it "+
			"moves if it is not; spec.homes is %s\n", shard, homesText(c.Spec.Homes))
		return nil
	}
	fmt.Fprintf(out, "the home of shard %d is %s; spec.homes is %s\n", shard, home, homesText(c.Spec.Homes))
	said := ""
	err = poll(ctx, pollEvery, func() (bool, string, error) {
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return false, "", fmt.Errorf("read cluster %s: %w", c.Name, err)
		}
		text, done := moving(c, shard, home)
		if text != said {
			said = text
			fmt.Fprintln(out, text)
		}
		return done, text, nil
	})
	if err != nil {
		return fmt.Errorf("%w; the move goes on, and `kubectl georegister status %s` tells how far it is", err, c.Name)
	}
	return nil
}

// movable reports why a shard can't be moved to a site.
func movable(c *v1alpha1.GeoRegisterCluster, shard int, site string) error {
	switch sites := siteNames(c); {
	case !c.Spec.Partitioned():
		return fmt.Errorf("cluster %s has protocol %s, which has no masters that could move", c.Name, c.Spec.Protocol)
	case shard < 0 || shard >= c.Spec.ShardCount():
		return fmt.Errorf("cluster %s has no shard %d; they are numbered from 0 to %d, and raising spec.shards "+
			"splits off more", c.Name, shard, c.Spec.ShardCount()-1)
	case site != "" && !slices.Contains(sites, site):
		return fmt.Errorf("cluster %s has no site %q in spec.sites; there are %s", c.Name, site,
			strings.Join(sites, ", "))
	case c.Spec.Paused:
		return fmt.Errorf("cluster %s is paused, so that nothing would move; remove spec.paused", c.Name)
	}
	return nil
}

// moving says how far a shard is on the way to its home, as the status tells.
func moving(c *v1alpha1.GeoRegisterCluster, shard int, home string) (text string, done bool) {
	here := func(id int32) bool {
		return slices.ContainsFunc(c.Status.Members, func(m v1alpha1.MemberStatus) bool {
			return m.ID == int64(id) && m.Site == home
		})
	}
	i := slices.IndexFunc(c.Status.Partitions, func(p v1alpha1.PartitionStatus) bool {
		return p.Number == int32(shard)
	})
	if i < 0 && len(c.Status.Partitions) > 0 && c.Status.ObservedGeneration == c.Generation {
		text := fmt.Sprintf("shard %d is not split off yet", shard)
		if is := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing); is != nil {
			text += ": " + is.Message
		}
		return text, false
	}
	if i < 0 || c.Status.ObservedGeneration < c.Generation {
		return "waiting for the operator", false
	}
	switch p := c.Status.Partitions[i]; {
	case here(int32(p.Master)) && p.Serving:
		return fmt.Sprintf("member %d at %s is the master of shard %d, and serves", p.Master, home, shard), true
	case here(int32(p.Master)):
		return fmt.Sprintf("member %d at %s takes over: %s", p.Master, home, p.Message), false
	case slices.ContainsFunc(p.Backups, here):
		return fmt.Sprintf("a backup at %s has the state; member %d serves still", home, p.Master), false
	default:
		return fmt.Sprintf("waiting for a member at %s to have the state; member %d serves meanwhile",
			home, p.Master), false
	}
}

// homesText is spec.homes as people read it.
func homesText(homes []string) string {
	if len(homes) == 0 {
		return "empty"
	}
	var all []string
	for i, home := range homes {
		if home != "" {
			all = append(all, fmt.Sprintf("%d: %s", i, home))
		}
	}
	return strings.Join(all, ", ")
}
