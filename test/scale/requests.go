package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/georegister/georegister/test/apiserver"
)

// requests counts what the operator asked of the apiserver, by verb and resource.
type requests map[string]int

// asked counts all that the operator asked so far.
func asked(log string) (requests, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	all, err := apiserver.Requests(file, operatorUser)
	if err != nil {
		return nil, err
	}
	counts := requests{}
	for _, r := range all {
		counts[name(r)]++
	}
	return counts, nil
}

// name is the verb and the resource of a request, or its path if it is for none.
func name(r apiserver.Request) string {
	if r.ObjectRef.Resource == "" {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		return r.Verb + " " + path
	}
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s", r.Verb, resource)
}

// since are the requests that came after others were counted.
func (r requests) since(before requests) requests {
	after := requests{}
	for name, count := range r { // order is irrelevant: each is counted alone
		if count > before[name] {
			after[name] = count - before[name]
		}
	}
	return after
}

// kinds sums requests up: watches, those of the lease, and all others.
func (r requests) kinds() (watches, leases, others int) {
	for name, count := range r { // order is irrelevant: sums
		switch {
		case strings.HasPrefix(name, "watch "):
			watches += count
		case strings.HasSuffix(name, " leases"):
			leases += count
		default:
			others += count
		}
	}
	return watches, leases, others
}
