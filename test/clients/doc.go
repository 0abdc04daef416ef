// Package clients runs programs that others wrote, redis-cli and redis-benchmark, against a cluster of
// georegister dev. Its tests need those programs and so a build tag, clients; `make test-clients` runs them.
package clients
