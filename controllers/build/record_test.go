package build

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/replica/view"
)

func TestRecordHoldsTheView(t *testing.T) {
	in := load(t, "full")
	in.View.Epoch, in.View.Issued = 4, 9
	in.View.Members[0] = view.Member{ID: 8, Site: "ca", Address: "x:7000"} // came later: founded on no disk
	in.View.Members[1].Leaving, in.View.Since = true, 2
	in.View.Members = append(in.View.Members,
		view.Member{ID: 9, Site: "ca", Address: "y:7000", Disk: "d", Joining: true})
	got, err := ParseRecord(Record(in))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, in.View) {
		t.Errorf("got %+v, want %+v", got, in.View)
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	replace := func(old, by string) func(*corev1.ConfigMap) {
		return func(c *corev1.ConfigMap) { c.Data[ViewKey] = strings.Replace(c.Data[ViewKey], old, by, 1) }
	}
	for name, c := range map[string]struct {
		damage func(*corev1.ConfigMap)
		says   string
	}{
		"no data":          {func(c *corev1.ConfigMap) { c.Data = nil }, `no data "view.yaml"`},
		"empty":            {func(c *corev1.ConfigMap) { c.Data[ViewKey] = "" }, "no identity"},
		"no YAML":          {func(c *corev1.ConfigMap) { c.Data[ViewKey] = "{" }, "view.yaml: "},
		"unknown field":    {replace("epoch:", "epochs:"), "epochs"},
		"epoch edited":     {replace("epoch: 1", "epoch: 2"), "edited or is damaged"},
		"epoch 0":          {replace("epoch: 1", "epoch: 0"), "epochs start at 1"},
		"issued too small": {replace("issued: 3", "issued: 2"), "at least 3"},
		"issued too large": {replace("issued: 3", "issued: 70000"), "is above 65535"},
		"member edited":    {replace("site: a", "site: b"), "edited or is damaged"},
		"member twice":     {replace("id: 2", "id: 1"), "named twice"},
		"no digest":        {func(c *corev1.ConfigMap) { delete(c.Data, DigestKey) }, `"digest" is ""`},
		"another cluster": {func(c *corev1.ConfigMap) {
			c.Annotations[ClusterIDAnnotation] = "other.1"
		}, `is "other.1"`},
	} {
		record := Record(load(t, "minimal"))
		before := record.DeepCopy()
		c.damage(record)
		if reflect.DeepEqual(before, record) {
			t.Errorf("%s: the record was not damaged", name)
		}
		v, err := ParseRecord(record)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "shop--view") {
			t.Errorf("%s: got %v, want the name of the record and %q", name, err, c.says)
		}
		if !reflect.DeepEqual(v, view.View{}) {
			t.Errorf("%s: a view comes with the error: %+v", name, v)
		}
	}
}

// FuzzParseRecord finds a text that is accepted and is not what its view would be written as.
func FuzzParseRecord(f *testing.F) {
	for _, name := range []string{"minimal", "full", "curp"} {
		record := Record(load(f, name))
		f.Add(record.Data[ViewKey], record.Data[DigestKey])
	}
	f.Add("cluster: c\nepoch: 18446744073709551615\nissued: 65535\nmembers: [{id: 65535, site: \"\", address: \"\"}]",
		"")
	f.Add("members: [{id: -1}]", "0")
	f.Fuzz(func(t *testing.T, text, digest string) {
		record := &corev1.ConfigMap{Data: map[string]string{ViewKey: text, DigestKey: digest}}
		v, err := ParseRecord(record)
		if err != nil {
			return
		}
		in := load(t, "minimal")
		in.View, in.ClusterID = v, v.Cluster
		again, err := ParseRecord(Record(in))
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("%+v was written and read as %+v, %v", v, again, err)
		}
		if v.Validate() != nil || v.Digest() != digest {
			t.Errorf("accepted: %+v with digest %s", v, digest)
		}
	})
}
