package main

import (
	"testing"
	"time"

	"github.com/georegister/georegister/test/apiserver"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		all   []time.Duration
		share float64
		want  time.Duration
	}{
		{nil, 0.5, 0},
		{[]time.Duration{7}, 0.99, 7},
		{[]time.Duration{3, 1, 2}, 0.5, 2},
		{[]time.Duration{4, 3, 1, 2}, 0.5, 2},
		{[]time.Duration{4, 3, 1, 2}, 0.99, 4},
		{[]time.Duration{4, 3, 1, 2}, 0, 1},
	} {
		if got := quantile(c.all, c.share); got != c.want {
			t.Errorf("quantile %v of %v: %d, want %d", c.share, c.all, got, c.want)
		}
	}
}

func TestRequestsAreToldApart(t *testing.T) {
	of := func(verb, resource, subresource, uri string) apiserver.Request {
		r := apiserver.Request{Verb: verb, RequestURI: uri}
		r.ObjectRef.Resource, r.ObjectRef.Subresource = resource, subresource
		return r
	}
	before, now := requests{}, requests{}
	for _, r := range []apiserver.Request{
		of("watch", "pods", "", ""), of("update", "leases", "", ""), of("watch", "leases", "", ""),
		of("update", "georegisterclusters", "status", ""),
		of("get", "", "", "/apis/monitoring.coreos.com/v1?timeout=32s"),
	} {
		now[name(r)]++
	}
	before["watch pods"] = 1
	if watches, leases, others := now.kinds(); watches != 2 || leases != 1 || others != 2 {
		t.Errorf("%v: %d watches, %d leases, %d others", now, watches, leases, others)
	}
	after := now.since(before)
	if after["watch pods"] != 0 || after["get /apis/monitoring.coreos.com/v1"] != 1 ||
		after["update georegisterclusters/status"] != 1 {
		t.Errorf("since %v: %v", before, after)
	}
}
