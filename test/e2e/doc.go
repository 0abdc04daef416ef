// Package e2e tests the program from outside: real processes, started by `georegister dev`, and go-redis.
package e2e
