// Package cluster tests the operator and its stores on a real Kubernetes of three zones, as `make cluster-up deploy`
// leaves it. The tests are behind the build tag `cluster`; `make smoke` and `make e2e` run them.
package cluster
