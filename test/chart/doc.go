// Package chart holds tests of the packages that install the operator: the Helm chart and the kustomize bases. Those
// that render them need helm and kustomize, and the build tag chart: `make test-chart`.
package chart
