package operation

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of all listeners of a replica.
type Metrics struct {
	// WrongProtocol counts connections to the Redis listener whose clients speak another protocol.
	WrongProtocol prometheus.Counter

	connections  *prometheus.GaugeVec
	accepted     *prometheus.CounterVec
	refused      *prometheus.CounterVec
	commands     *prometheus.CounterVec
	dependencies *prometheus.CounterVec
	fences       prometheus.Counter
	evicted      *prometheus.CounterVec
	memory       prometheus.Gauge
}

// NewMetrics makes the metrics and registers them, unless registerer is nil.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	return &Metrics{
		connections: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "georegister_server_connections", Help: "Open client connections.",
		}, []string{"listener"}),
		accepted: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_connections_total", Help: "Client connections accepted.",
		}, []string{"listener"}),
		refused: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_connections_refused_total", Help: "Client connections over the limit.",
		}, []string{"listener"}),
		commands: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_commands_total",
			Help: "Commands answered, by name (unknown ones together as \"other\") and outcome: " +
				"ok, or the kind of error.",
		}, []string{"listener", "command", "outcome"}),
		dependencies: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_dependencies_total",
			Help: "Earlier reads that operations were submitted after, since a quorum may not have held what was read.",
		}, []string{"listener"}),
		fences: factory.NewCounter(prometheus.CounterOpts{
			Name: "georegister_server_session_fences_total",
			Help: "Fences before the next command of a Redis connection that depended on more than an operation " +
				"carries.",
		}),
		WrongProtocol: factory.NewCounter(prometheus.CounterOpts{
			Name: "georegister_server_wrong_protocol_total",
			Help: "Connections to the Redis port that were closed since they spoke another protocol, such as HTTP.",
		}),
		evicted: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "georegister_server_evicted_total",
			Help: "Connections that were closed since clients held more memory than they may, and these most of it.",
		}, []string{"listener"}),
		memory: factory.NewGauge(prometheus.GaugeOpts{
			Name: "georegister_server_client_memory_bytes",
			Help: "What the connections of clients hold at all ports, of limits.clientMemory.",
		}),
	}
}

// ListenerMetrics are the metrics of one listener.
type ListenerMetrics struct {
	Open         prometheus.Gauge   // connections now
	Accepted     prometheus.Counter // connections, ever
	Refused      prometheus.Counter // connections over Options.MaxConnections
	Dependencies prometheus.Counter // earlier reads that operations were submitted after

	name     string
	commands *prometheus.CounterVec
}

// Listener returns the metrics of the listener that has this name.
func (m *Metrics) Listener(name string) ListenerMetrics {
	return ListenerMetrics{
		Open: m.connections.WithLabelValues(name), Accepted: m.accepted.WithLabelValues(name),
		Refused: m.refused.WithLabelValues(name), Dependencies: m.dependencies.WithLabelValues(name),
		name: name, commands: m.commands,
	}
}

// Counters count the outcomes of one command.
type Counters [outcomes]prometheus.Counter

// Command returns the counters of a command, or of the commands that are counted under this name.
func (l *ListenerMetrics) Command(name string) Counters {
	return Counters{
		OK:          l.commands.WithLabelValues(l.name, name, "ok"),
		Refused:     l.commands.WithLabelValues(l.name, name, "refused"),
		Unavailable: l.commands.WithLabelValues(l.name, name, "unavailable"),
		Unknown:     l.commands.WithLabelValues(l.name, name, "unknown"),
	}
}
