package v1alpha1

// WAN is the network between the sites: a profile by name, or a link for every pair of sites.
// +kubebuilder:validation:XValidation:rule="has(self.profile) != has(self.links)",message="give either profile or links, or remove wan for a network without delay"
type WAN struct {
	// Provider emulates the network between the members' pods: ChaosMesh, which must be installed, or None. With None
	// the network is what the nodes have. The embedded cluster (georegister dev) emulates delays by itself, whatever
	// this says. Default: None.
	// +optional
	// +kubebuilder:validation:Enum=ChaosMesh;None
	Provider WANProvider `json:"provider,omitempty"`

	// Profile is the topology of a paper, whose sites it names: gryff (ca, va, ir, or, jp: California,
	// Virginia, Ireland, Oregon, Japan) or rss (ca, va, ir).
	// +optional
	// +kubebuilder:validation:Enum=gryff;rss
	Profile string `json:"profile,omitempty"`

	// Links has one entry for every pair of sites, in either order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=21
	Links []Link `json:"links,omitempty"`

	// TolerancePercent is by how much the round trips that members measure may exceed those declared, before the
	// condition WANWithinTolerance says so; 2ms more are always allowed. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	TolerancePercent *int32 `json:"tolerancePercent,omitempty"`
}

// WANProvider is what emulates the network between the sites.
type WANProvider string

// The providers.
const (
	ChaosMesh  WANProvider = "ChaosMesh"
	NoProvider WANProvider = "None"
)

// Link is the network between two sites.
// +kubebuilder:validation:XValidation:rule="!has(self.directions) || self.directions.all(d, d.from in self.between)",message="a direction begins at one of the link's two sites: correct its from",fieldPath=".directions"
type Link struct {
	// Between names the two sites.
	// +listType=set
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=20
	Between []string `json:"between"`

	// RTT is the round-trip time, up to 10s; each direction takes half of it. Where a direction gives a delay of its
	// own, the round trip is the sum of both.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$') || duration(self) >= duration('0s') && duration(self) <= duration('10s')",message="rtt must be between 0s and 10s"
	RTT Duration `json:"rtt"`

	// Jitter is how much longer a message may take, at random, in each direction: between nothing and this. Default:
	// 0s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$') || duration(self) >= duration('0s') && duration(self) <= duration('10s')",message="jitter must be between 0s and 10s"
	Jitter Duration `json:"jitter,omitempty"`

	// Loss is how many packets are lost, at random, in each direction. Only Chaos Mesh emulates it. Default: 0%.
	// +optional
	Loss Percentage `json:"loss,omitempty"`

	// Rate is the most that each direction carries a second, such as 100Mbit. Only Chaos Mesh emulates it. Default: not
	// bounded.
	// +optional
	Rate BitRate `json:"rate,omitempty"`

	// Directions say what is different in one direction, or in both.
	// +optional
	// +listType=map
	// +listMapKey=from
	// +kubebuilder:validation:MaxItems=2
	Directions []Direction `json:"directions,omitempty"`
}

// Direction is one direction of a link. What it does not say is as the link says.
// +kubebuilder:validation:XValidation:rule="has(self.delay) || has(self.jitter) || has(self.loss) || has(self.rate)",message="a direction says what is different: give delay, jitter, loss or rate, or remove it"
type Direction struct {
	// From is the site where it begins, one of the link's two.
	// +kubebuilder:validation:MaxLength=20
	From string `json:"from"`

	// Delay is how long a message takes, up to 5s, instead of half the round-trip time.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$') || duration(self) >= duration('0s') && duration(self) <= duration('5s')",message="delay must be between 0s and 5s"
	Delay Duration `json:"delay,omitempty"`

	// Jitter is how much longer it may take, at random.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$') || duration(self) >= duration('0s') && duration(self) <= duration('10s')",message="jitter must be between 0s and 10s"
	Jitter Duration `json:"jitter,omitempty"`

	// Loss is how many packets are lost, at random.
	// +optional
	Loss Percentage `json:"loss,omitempty"`

	// Rate is the most that it carries a second, such as 100Mbit.
	// +optional
	Rate BitRate `json:"rate,omitempty"`
}

// Percentage is a share, such as 1% or 0.5%, of up to three decimals.
// +kubebuilder:validation:MaxLength=8
// +kubebuilder:validation:Pattern=`^(100(\.0{1,3})?|[0-9]{1,2}(\.[0-9]{1,3})?)%$`
type Percentage string

// BitRate is bits a second, from 8kbit to 100Gbit: whole kbit, Mbit or Gbit, which are powers of 1000.
// +kubebuilder:validation:MaxLength=10
// +kubebuilder:validation:Pattern=`^(([89]|[1-9][0-9]{1,5})k|[1-9][0-9]{0,4}M|([1-9][0-9]?|100)G)bit$`
type BitRate string
