// Package controllers is the operator: it observes clusters and their members, has the next plan decided, and
// carries it out. What is decided is elsewhere (controllers/decide); here is what needs clocks, sockets and an
// apiserver.
package controllers

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
)

// Options are what an operator is started with.
type Options struct {
	Settings world.Settings
	// Namespaces are those whose clusters are managed; none stands for all.
	Namespaces []string
	// MaxConcurrent is how many clusters are worked on at the same time, at least 1, beside those whose members are
	// waited for.
	MaxConcurrent int

	MetricsAddress string // host:port, or 0 for none
	HealthAddress  string // host:port for /healthz and /readyz, or 0 for none

	// LeaderElect lets one of several operators work, by a lease in Settings.Namespace. Two that work at the
	// same time do no harm, but twice the requests.
	LeaderElect bool
	// LeaseDuration is how long a lease that is not renewed is respected; the leader gives up after
	// RenewDeadline without one, and everybody tries every RetryPeriod.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	// Leads is told when the operator begins to work, and when it has lost the lease; nil for no one.
	Leads func(bool)

	// DiscoverEvery is the time between two looks for the kinds of other operators; 0 for a few minutes.
	DiscoverEvery time.Duration

	// Members talks to the members, and to their witnesses.
	Members members.Members
	// Registry takes the operator's own metrics; nil for the one that MetricsAddress serves.
	Registry prometheus.Registerer
	Log      logr.Logger
}

// Validate reports what an operator can't start with.
func (o Options) Validate() error {
	switch {
	case o.Settings.Namespace == "":
		return errors.New("the operator's own namespace is not known: set POD_NAMESPACE or --namespace")
	case o.Settings.ClusterDomain == "":
		return errors.New("--cluster-domain is empty: give the domain of the cluster's DNS, such as cluster.local")
	case o.Settings.LostAfter <= 0:
		return fmt.Errorf("--lost-after is %v: it must be more than 0", o.Settings.LostAfter)
	case o.MaxConcurrent < 1:
		return fmt.Errorf("--max-concurrent is %d: it must be at least 1", o.MaxConcurrent)
	case o.LeaderElect &&
		(o.RetryPeriod <= 0 || o.RenewDeadline <= o.RetryPeriod || o.LeaseDuration <= o.RenewDeadline):
		return fmt.Errorf("leases of %v, %v and %v: --lease-duration must be longer than --renew-deadline, and that "+
			"longer than --retry-period",
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod)
	}
	return nil
}
