package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/georegister/georegister/replica/profile"
)

// network is the profile that --rtt or --profile names, narrowed to --sites.
func (f simulateFlags) network() (profile.Profile, error) {
	var network profile.Profile
	var err error
	if f.rtt != "" {
		if network, err = profile.Parse(f.rtt); err != nil {
			return profile.Profile{}, fmt.Errorf("--rtt: %w", err)
		}
	} else if network, err = profile.Find(f.profile); err != nil {
		return profile.Profile{}, fmt.Errorf("--profile: %w", err)
	}
	if f.sites == "" {
		return network, nil
	}
	if n, failed := strconv.Atoi(f.sites); failed == nil {
		network, err = network.First(n)
	} else {
		network, err = network.Select(strings.Split(f.sites, ","))
	}
	if err != nil {
		return profile.Profile{}, fmt.Errorf("--sites: %w", err)
	}
	return network, nil
}
