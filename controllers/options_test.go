package controllers

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsValidate(t *testing.T) {
	good := func() Options {
		return Options{
			Settings: settings, MaxConcurrent: 1, LeaderElect: true,
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		}
	}
	for name, tt := range map[string]struct {
		change func(*Options)
		says   string // "": nothing is wrong
	}{
		"good": {func(*Options) {}, ""},
		"alone": {func(o *Options) {
			o.LeaderElect, o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = false, 0, 0, 0
		}, ""},
		"no default image": {func(o *Options) { o.Settings.DefaultImage = "" }, ""},
		"no namespace":     {func(o *Options) { o.Settings.Namespace = "" }, "set POD_NAMESPACE or --namespace"},
		"no domain":        {func(o *Options) { o.Settings.ClusterDomain = "" }, "--cluster-domain is empty"},
		"lost at once":     {func(o *Options) { o.Settings.LostAfter = 0 }, "--lost-after is 0s"},
		"lost before":      {func(o *Options) { o.Settings.LostAfter = -time.Second }, "--lost-after is -1s"},
		"nobody works":     {func(o *Options) { o.MaxConcurrent = 0 }, "--max-concurrent is 0"},
		"lease too short":  {func(o *Options) { o.LeaseDuration = o.RenewDeadline }, "leases of 10s, 10s and 2s"},
		"renewed too late": {func(o *Options) {
			o.RenewDeadline = 20 * time.Second
		}, "--lease-duration must be longer than --renew-deadline"},
		"tried too seldom":   {func(o *Options) { o.RetryPeriod = o.RenewDeadline }, "longer than --retry-period"},
		"tried all the time": {func(o *Options) { o.RetryPeriod = 0 }, "leases of 15s, 10s and 0s"},
	} {
		o := good()
		tt.change(&o)
		err := o.Validate()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", name, err, tt.says)
		}
	}
}
