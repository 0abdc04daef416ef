package server

import "github.com/prometheus/client_golang/prometheus"

// Metrics are what the listeners count. One Metrics serves all listeners of a replica.
type Metrics struct {
	connections *prometheus.GaugeVec
	accepted    *prometheus.CounterVec
	refused     *prometheus.CounterVec
	commands    *prometheus.CounterVec
	carried     *prometheus.CounterVec
	fences      prometheus.Counter
	foreign     prometheus.Counter
	evicted     *prometheus.CounterVec
	held        prometheus.Gauge // by clients
}

// NewMetrics makes the metrics and registers them, unless registerer is nil.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "georegister_server_connections", Help: "Open client connections.",
		}, []string{"listener"}),
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_connections_total", Help: "Client connections accepted.",
		}, []string{"listener"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_connections_refused_total", Help: "Client connections over the limit.",
		}, []string{"listener"}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_commands_total",
			Help: "Commands answered, by name (unknown ones together as \"other\") and outcome: ok, or the kind of error.",
		}, []string{"listener", "command", "outcome"}),
		carried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_dependencies_total",
			Help: "Earlier reads that operations were submitted after, since a quorum may not have held what was read.",
		}, []string{"listener"}),
		fences: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "georegister_server_session_fences_total",
			Help: "Fences before the next command of a Redis connection that depended on more than an operation carries.",
		}),
	}
	m.foreign = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "georegister_server_foreign_total",
		Help: "Connections to the Redis port that were closed since they spoke another protocol, such as HTTP.",
	})
	m.evicted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "georegister_server_evicted_total",
		Help: "Connections that were closed since clients held more memory than they may, and these most of it.",
	}, []string{"listener"})
	m.held = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "georegister_server_client_memory_bytes", Help: "What the connections of clients hold at all ports, of limits.clientMemory.",
	})
	if registerer != nil {
		registerer.MustRegister(m.connections, m.accepted, m.refused, m.commands, m.carried, m.fences, m.foreign, m.evicted, m.held)
	}
	return m
}

// outcomes are the label values of a command's end.
const (
	outcomeOK          = iota
	outcomeRefused     // the request is wrong, or the function refused it
	outcomeUnavailable // certainly without effect
	outcomeUnknown
	outcomes
)

// counters are one command's, by outcome.
type counters [outcomes]prometheus.Counter

func (m *Metrics) command(listener, name string) counters {
	return counters{
		outcomeOK:          m.commands.WithLabelValues(listener, name, "ok"),
		outcomeRefused:     m.commands.WithLabelValues(listener, name, "refused"),
		outcomeUnavailable: m.commands.WithLabelValues(listener, name, "unavailable"),
		outcomeUnknown:     m.commands.WithLabelValues(listener, name, "unknown"),
	}
}
