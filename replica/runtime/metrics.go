package runtime

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
)

// metrics are what a replica tells of itself.
type metrics struct {
	*prometheus.Registry // all of them, registered as one

	latency    *prometheus.HistogramVec
	byKind     [register.Fence + 1][2]prometheus.Observer // by kind and path, so that none is looked up
	outcomes   *prometheus.CounterVec
	byOutcome  [register.Fence + 1][register.Unknown + 1]prometheus.Counter
	roundTrips *prometheus.HistogramVec
	tripsBy    [register.Fence + 1]prometheus.Observer
	taken      *prometheus.CounterVec
	barriers   prometheus.Counter
	turn       prometheus.Histogram
	group      prometheus.Histogram
	groupBytes prometheus.Histogram
	fsync      prometheus.Histogram
	overflow   prometheus.Counter
	fetched    prometheus.Counter
}

const (
	fast = iota
	slow
)

func newMetrics(r *Replica) *metrics {
	sizes := prometheus.ExponentialBuckets(1, 2, 12)
	m := &metrics{
		Registry: prometheus.NewRegistry(),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "georegister_operation_seconds",
			Help:    "Time from submission to the answer, of operations that took effect.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 1.6, 30),
		}, []string{"kind", "path"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_operations_total", Help: "Operations that ended, by outcome.",
		}, []string{"kind", "status"}),
		roundTrips: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "georegister_operation_round_trips", Help: "Round trips to a quorum that an operation waited for.",
			Buckets: prometheus.LinearBuckets(0, 1, 8),
		}, []string{"kind"}),
		taken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_protocol_paths_total", Help: "Paths that the protocol took.",
		}, []string{"path"}),
		turn: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "georegister_shard_iteration_inputs",
			Help: "Operations and messages per iteration of a shard's loop.", Buckets: sizes,
		}),
		group: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "georegister_commit_batches", Help: "Batches of shards per commit.", Buckets: sizes,
		}),
		groupBytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "georegister_commit_bytes", Help: "Bytes of keys and values per commit.",
			Buckets: prometheus.ExponentialBuckets(64, 4, 10),
		}),
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "georegister_commit_seconds", Help: "Time of a commit, its fsync included.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2, 16),
		}),
		overflow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "georegister_messages_overflow_total",
			Help: "Messages received and dropped because a shard's queue was full.",
		}),
	}
	m.fetched = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "georegister_storage_fetched_total",
		Help: "Records that were not in the cache, and were read from the disk while operations waited.",
	})
	m.barriers = m.taken.WithLabelValues("barrier") // the runtime's own
	for _, kind := range []register.Kind{register.Read, register.Write, register.RMW, register.Fence} {
		m.byKind[kind] = [2]prometheus.Observer{
			m.latency.WithLabelValues(kind.String(), "fast"), m.latency.WithLabelValues(kind.String(), "slow"),
		}
		m.tripsBy[kind] = m.roundTrips.WithLabelValues(kind.String())
		for status := register.OK; status <= register.Unknown; status++ {
			m.byOutcome[kind][status] = m.outcomes.WithLabelValues(kind.String(), status.String())
		}
	}
	m.MustRegister(
		m.latency, m.outcomes, m.roundTrips, m.taken, m.turn, m.group, m.groupBytes, m.fsync, m.overflow, m.fetched,
		&gauges{replica: r}, // read only when somebody looks
	)
	return m
}

// paths returns a protocol.Config.Count for one shard's goroutine.
func (m *metrics) paths() func(string) {
	known := map[string]prometheus.Counter{}
	return func(path string) {
		counter, ok := known[path]
		if !ok {
			counter = m.taken.WithLabelValues(path)
			known[path] = counter
		}
		counter.Inc()
	}
}

// finished counts an operation that ended.
func (m *metrics) finished(kind register.Kind, result *register.Result, took time.Duration) {
	if int(result.Status) < len(m.byOutcome[kind]) && m.byOutcome[kind][result.Status] != nil {
		m.byOutcome[kind][result.Status].Inc()
	}
	if result.Status != register.OK {
		return
	}
	path := slow
	if result.Fast {
		path = fast
	}
	m.byKind[kind][path].Observe(took.Seconds())
	m.tripsBy[kind].Observe(float64(result.RoundTrips))
}

func (m *metrics) observeCommit(c storage.Commit) {
	m.group.Observe(float64(c.Batches))
	m.groupBytes.Observe(float64(c.Bytes))
	m.fsync.Observe(c.Took.Seconds())
}

// gauges read the replica's state at each scrape.
type gauges struct{ replica *Replica }

var (
	inFlightDesc = describe("georegister_operations_in_flight", "Operations submitted and not ended.", "shard")
	pendingDesc  = describe("georegister_protocol_pending",
		"Operations and instances that the protocol holds unfinished.", "shard")
	queueDesc = describe("georegister_shard_queue",
		"Operations and messages that wait for the shard's loop.", "shard")
	waitingDesc = describe("georegister_shard_waiting",
		"Operations and messages that wait for a record to be read from the disk.", "shard")
	voterDesc    = describe("georegister_shard_voter", "1 if the shard votes, 0 while it is a newcomer.", "shard")
	bytesDesc    = describe("georegister_storage_bytes", "Size of the state on disk, or in memory.")
	epochDesc    = describe("georegister_view_epoch", "Epoch of the view that this member acts in.")
	quorumDesc   = describe("georegister_quorum_reachable", "1 if this member reaches a quorum.")
	changingDesc = describe("georegister_change_in_progress", "1 while members change: the view is joint.")
	doneDesc     = describe("georegister_change_done",
		"1 if this member has done its part of the change: settled, and fetched what it has to.")
	fetchedDesc = describe("georegister_change_fetched_bytes",
		"Bytes of the others' state that this member fetched in this change, or after its disk was lost.")
	sameDesc = describe("georegister_change_same_bytes",
		"Bytes of the others' state that were compared, and not sent since they are equal here.")
	restDesc = describe("georegister_change_remaining_bytes",
		"Bytes of the others' state that are still to be fetched or compared, estimated.")
	sentDesc     = describe("georegister_peer_messages_sent_total", "Messages sent to a peer.", "peer")
	receivedDesc = describe("georegister_peer_messages_received_total", "Messages received from a peer.", "peer")
	droppedDesc  = describe("georegister_peer_messages_dropped_total", "Messages to a peer that were dropped.", "peer")
	rttDesc      = describe("georegister_peer_rtt_seconds", "Latest round trip to a peer.", "peer")
	minRTTDesc   = describe("georegister_peer_min_rtt_seconds",
		"Shortest of the latest 64 round trips to a peer.", "peer")
	reachDesc = describe("georegister_peer_reachable", "1 if the peer answered lately.", "peer")

	roleDesc = describe("georegister_partition_role", "1 for the part that this member has in a partition.",
		"partition", "role")
	servingDesc = describe("georegister_partition_serving",
		"1 if this member is the partition's master and serves.", "partition")
	lostDesc = describe("georegister_partition_lost",
		"1 if this member's disk can't fill the part that the view gives it.", "partition")
	termDesc = describe("georegister_partition_term",
		"Term of the partition, in the view that this member acts in.", "partition")
	unsyncedDesc = describe("georegister_partition_unsynced",
		"Operations of a master that not all backups are known to hold.", "partition")
	updatesDesc = describe("georegister_partition_updates_total",
		"Updates submitted to this member, by whether they took one round trip.", "partition", "path")

	witnessReachDesc   = describe("georegister_witness_reachable", "1 if the witness answered lately.", "witness")
	witnessRTTDesc     = describe("georegister_witness_rtt_seconds", "Latest round trip to a witness.", "witness")
	witnessSentDesc    = describe("georegister_witness_messages_sent_total", "Questions sent to a witness.", "witness")
	witnessDroppedDesc = describe("georegister_witness_messages_dropped_total",
		"Questions to a witness that were dropped.", "witness")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{inFlightDesc, pendingDesc, queueDesc, waitingDesc, voterDesc, bytesDesc,
		epochDesc, quorumDesc,
		changingDesc, doneDesc, fetchedDesc, sameDesc, restDesc, sentDesc, receivedDesc, droppedDesc,
		rttDesc, minRTTDesc,
		reachDesc, roleDesc, servingDesc, lostDesc, termDesc, unsyncedDesc, updatesDesc,
		witnessReachDesc, witnessRTTDesc,
		witnessSentDesc, witnessDroppedDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	status := g.replica.Status()
	for _, s := range status.Shards {
		shard := strconv.Itoa(s.Number)
		gauge(inFlightDesc, float64(s.InFlight), shard)
		gauge(pendingDesc, float64(s.Pending), shard)
		gauge(queueDesc, float64(s.Queue), shard)
		gauge(waitingDesc, float64(s.Waiting), shard)
		gauge(voterDesc, number(s.Voter), shard)
	}
	gauge(bytesDesc, float64(status.StorageBytes))
	gauge(epochDesc, float64(status.Epoch))
	gauge(quorumDesc, number(status.Quorum))
	change := status.Change
	gauge(changingDesc, number(change.Joint))
	gauge(doneDesc, number(change.Settled && (!change.Transfers || change.Fetched)))
	gauge(fetchedDesc, float64(change.Bytes))
	gauge(sameDesc, float64(change.SameBytes))
	gauge(restDesc, float64(change.Remaining))
	for _, p := range status.Peers {
		peer := strconv.Itoa(int(p.ID))
		counter(sentDesc, p.Sent, peer)
		counter(receivedDesc, p.Received, peer)
		counter(droppedDesc, p.Dropped, peer)
		gauge(rttDesc, p.RTT.Seconds(), peer)
		gauge(minRTTDesc, p.MinRTT.Seconds(), peer)
		gauge(reachDesc, number(p.Reachable), peer)
	}
	for _, p := range status.Partitions {
		partition := strconv.Itoa(p.Partition)
		gauge(roleDesc, 1, partition, p.Role.String())
		gauge(servingDesc, number(p.Serving), partition)
		gauge(lostDesc, number(p.Lost), partition)
		gauge(termDesc, float64(p.Term), partition)
		gauge(unsyncedDesc, float64(p.Unsynced), partition)
		counter(updatesDesc, p.Fast, partition, "fast")
		counter(updatesDesc, p.Slow, partition, "slow")
	}
	for _, w := range status.Witnesses {
		witness := strconv.Itoa(int(w.ID))
		gauge(witnessReachDesc, number(w.Reachable), witness)
		gauge(witnessRTTDesc, w.RTT.Seconds(), witness)
		counter(witnessSentDesc, w.Sent, witness)
		counter(witnessDroppedDesc, w.Dropped, witness)
	}
}

// number is 1 for yes.
func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
