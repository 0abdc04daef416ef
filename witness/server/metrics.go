package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/georegister/georegister/witness/core"
)

// minKeepalive is how often askers may ping a connection that carries nothing.
const minKeepalive = time.Second

// metrics are what the server counts itself. What the core counts is read from it when somebody asks.
type metrics struct {
	server   *Server
	commits  prometheus.Histogram
	rewrites prometheus.Counter
	dropped  prometheus.Counter
	logBytes prometheus.Gauge
}

var (
	descRecords = prometheus.NewDesc("georegister_witness_records_total",
		"Requests to save, by outcome: accepted, conflict (another one touches the same key), full (no free slot).",
		[]string{"outcome"}, nil)
	descRefused = prometheus.NewDesc("georegister_witness_refused_total",
		"Questions of every kind that were refused, for a reason that the answer names.", nil, nil)
	descDropped = prometheus.NewDesc("georegister_witness_dropped_total",
		"Slots that a master's gc has freed.", nil, nil)
	descCollections = prometheus.NewDesc("georegister_witness_gc_total", "Rounds of gc.", nil, nil)
	descSuspects    = prometheus.NewDesc("georegister_witness_suspects_total",
		"Requests handed back to masters as suspected garbage.", nil, nil)
	descChecks = prometheus.NewDesc("georegister_witness_checks_total",
		"Questions of readers whether a key is free.", nil, nil)
	descLives = prometheus.NewDesc("georegister_witness_instances",
		"Witness instances, one for each master that the witness serves, by mode.", []string{"mode"}, nil)
	descHeld   = prometheus.NewDesc("georegister_witness_requests", "Requests that are saved.", nil, nil)
	descTaken  = prometheus.NewDesc("georegister_witness_slots_taken", "Slots that hold a request.", nil, nil)
	descMemory = prometheus.NewDesc("georegister_witness_memory_bytes",
		"Memory for slots and requests, of all lives.", nil, nil)
	descStreams = prometheus.NewDesc("georegister_witness_streams", "Open streams of members and managers.", nil, nil)
)

func newMetrics(s *Server, registerer prometheus.Registerer) *metrics {
	m := &metrics{
		server: s,
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "georegister_witness_commit_seconds", Help: "Time to make a commit durable.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16),
		}),
		rewrites: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "georegister_witness_log_rewrites_total", Help: "How often the log was replaced by what is live.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "georegister_witness_answers_dropped_total",
			Help: "Batches of answers dropped because the asker did not take those before.",
		}),
		logBytes: prometheus.NewGauge(
			prometheus.GaugeOpts{Name: "georegister_witness_log_bytes", Help: "Size of the log."}),
	}
	if registerer != nil {
		registerer.MustRegister(m, m.commits, m.rewrites, m.dropped, m.logBytes)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRecords, descRefused, descDropped, descCollections, descSuspects, descChecks, descLives, descHeld,
		descTaken, descMemory, descStreams,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	var stats core.Stats
	var lives []core.Life
	streams := 0
	if !m.server.call(
		func(l *loop) { stats, lives, streams = l.s.witness.Stats(), l.s.witness.Lives(), len(l.streams) }) {
		return
	}
	modes := map[bool]float64{}
	var held, memory float64
	for _, l := range lives {
		modes[l.Frozen]++
		held += float64(l.Held)
		memory += float64(l.Memory)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for _, m := range []struct {
		desc   *prometheus.Desc
		kind   prometheus.ValueType
		value  float64
		labels []string
	}{
		{descRecords, counter, float64(stats.Accepted), []string{"accepted"}},
		{descRecords, counter, float64(stats.Conflicts), []string{"conflict"}},
		{descRecords, counter, float64(stats.Full), []string{"full"}},
		{descRefused, counter, float64(stats.Refused), nil},
		{descDropped, counter, float64(stats.Dropped), nil},
		{descCollections, counter, float64(stats.Collections), nil},
		{descSuspects, counter, float64(stats.Suspects), nil},
		{descChecks, counter, float64(stats.Checks), nil},
		{descLives, gauge, modes[false], []string{"normal"}},
		{descLives, gauge, modes[true], []string{"recovery"}},
		{descHeld, gauge, held, nil},
		{descTaken, gauge, held, nil},
		{descMemory, gauge, memory, nil},
		{descStreams, gauge, float64(streams), nil},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, m.labels...)
	}
}
