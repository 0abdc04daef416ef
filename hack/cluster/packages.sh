#!/bin/bash
# packages.sh missing   lists the Debian packages that the cluster needs and that are not there
# packages.sh install   installs them
set -euo pipefail

# Each is named by a file that it brings, so that a machine which is not Debian may have them too.
missing() {
	local package file
	while read -r package file; do
		command -v "$file" >/dev/null || echo -n " $package"
	done <<-END
		runc runc
		containernetworking-plugins /usr/lib/cni/bridge
		iptables iptables
		conntrack conntrack
		ethtool ethtool
		socat socat
		openssl openssl
		busybox-static /bin/busybox
		redis-tools redis-cli
		curl curl
	END
}

case ${1:-} in
missing) missing ;;
install)
	wanted=$(missing)
	[ -n "$wanted" ] || exit 0
	echo "installing$wanted"
	log=$(mktemp)
	# shellcheck disable=SC2086 # a list of words
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $wanted; } >"$log" 2>&1 ||
		{ cat "$log" >&2 && exit 1; }
	rm -f "$log"
	;;
*) sed -n '2,3s/^# //p' "$0" >&2 && exit 2 ;;
esac
