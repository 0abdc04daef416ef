package wire

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

func TestRoundTrip(t *testing.T) {
	want := view.View{Cluster: "c", Epoch: 3, Issued: 9, Since: 2, Members: []view.Member{
		{ID: 1, Site: "ca", Address: "ca:7000", Disk: "d1", Leaving: true},
		{ID: 9, Site: "va", Address: "va:7000", Joining: true},
		{ID: 4, Site: "or", Address: "or:7000"},
	}}
	if got := FromProto(ToProto(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v", want, got)
	}
	want.Witnesses = []view.Witness{{ID: 5, Site: "va", Address: "va:7100", Disk: "w", Beside: 9}, {ID: 6, Site: "va"}}
	want.Partitions = []view.Partition{{
		Term: 3, Master: 9, Backups: []view.MemberID{4}, Witnesses: []view.MemberID{6},
		Formers: []view.Former{{Term: 2, Master: 4, Backups: []view.MemberID{9}, Witnesses: []view.MemberID{5}}},
	}}
	if got := FromProto(ToProto(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v", want, got)
	}
	want.Partitions = append(want.Partitions, view.Partition{Term: 3, Master: 4, Empty: true})
	if got := FromProto(ToProto(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v", want, got)
	}
	want.Level = 1
	if got := FromProto(ToProto(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v", want, got)
	}
	want.Issued = 0 // stands for the highest
	if got := FromProto(ToProto(want)); got.Digest() != want.Digest() {
		t.Errorf("%+v became %+v", want, got)
	}
}

// A version that knows no joint views would let all members of one vote at once. It finds none, and refuses it.
func TestVersionsWithoutJointViewsFindNoMembers(t *testing.T) {
	joint := view.View{Cluster: "c", Epoch: 2, Members: []view.Member{{ID: 1}, {ID: 2, Joining: true}}}
	if m := ToProto(joint); len(m.Members) != 0 || len(m.Changing) != 2 {
		t.Errorf("a joint view tells the members %v, and %v as changing", m.Members, m.Changing)
	}
	for name, plain := range map[string]view.View{"before": joint.Before(), "after": joint.After()} {
		if m := ToProto(plain); len(m.Members) != plain.Size() || len(m.Changing) != 0 {
			t.Errorf("the view %s tells the members %v, and %v as changing", name, m.Members, m.Changing)
		}
	}
}

func TestBytes(t *testing.T) {
	want := view.View{Cluster: "c", Epoch: 3, Members: []view.Member{{ID: 1, Leaving: true}, {ID: 2, Joining: true}}}
	data, err := Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unmarshal(data); err != nil || got.Digest() != want.Digest() {
		t.Errorf("%+v became %+v, %v", want, got, err)
	}
	for name, damaged := range map[string][]byte{"nothing": nil, "a part": data[:len(data)-3], "no view": {0xff}} {
		if v, err := Unmarshal(damaged); err == nil {
			t.Errorf("%s is read as %+v", name, v)
		}
	}
}

func TestNoView(t *testing.T) {
	if ToProto(view.View{}) != nil || FromProto(nil).Epoch != 0 {
		t.Error("no view became one")
	}
}

// FuzzFromProto shows that whatever comes over the wire is read, and that what is valid keeps its digest on the way.
func FuzzFromProto(f *testing.F) {
	for _, v := range []view.View{{}, {Cluster: "c", Epoch: 1, Members: []view.Member{{ID: 1, Disk: "d"}}},
		{Cluster: "c", Epoch: 4, Since: 3, Members: []view.Member{{ID: 1, Leaving: true}, {ID: 2, Joining: true}}}} {
		data, err := proto.Marshal(ToProto(v))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		message := &adminv1.View{}
		if proto.Unmarshal(data, message) != nil {
			return
		}
		v := FromProto(message)
		if v.Validate() != nil {
			return
		}
		if again := FromProto(ToProto(v)); again.Digest() != v.Digest() {
			t.Errorf("%+v became %+v", v, again)
		}
	})
}
