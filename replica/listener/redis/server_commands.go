package redis

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/listener/redis/resp"
	"github.com/georegister/georegister/replica/register"
)

// redisVersion is the version of Redis whose commands and messages are followed; clients switch on it.
const redisVersion = "7.2.0"

// The commands in this file describe the server.

func runCommand(c *connection, k *call, args [][]byte) {
	sub := "all"
	if len(args) > 1 {
		sub = strings.ToLower(string(args[1]))
	}
	all := c.server.names()
	names := all
	if len(args) > 2 {
		names = nil
		for _, name := range args[2:] {
			names = append(names, strings.ToLower(string(name)))
		}
	}
	switch {
	case sub == "all" || sub == "info":
		k.reply(c.server.appendInfos(nil, k.version, names))
	case sub == "docs":
		k.reply(c.server.appendDocs(nil, k.version, names))
	case sub != "count":
		k.fail(fmt.Sprintf("ERR unknown subcommand '%s'. Known are COUNT, DOCS and INFO.", args[1]))
	case len(args) > 2:
		k.wrongArity("command|count")
	default:
		k.reply(resp.AppendInt(nil, int64(len(all))))
	}
}

// names lists the commands, sorted.
func (s *Server) names() []string { return slices.Sorted(maps.Keys(s.commands)) }

// appendInfos appends what COMMAND INFO says, null for a command that is not served.
func (s *Server) appendInfos(b []byte, v resp.Version, names []string) []byte {
	b = resp.AppendArray(b, len(names))
	for _, name := range names {
		k, ok := s.commands[name]
		if !ok {
			b = resp.AppendNullArray(b, v)
			continue
		}
		flags := []string{"fast"}
		switch {
		case k.firstKey > 0 && k.kind == register.Read:
			flags = []string{"readonly"}
		case k.firstKey > 0:
			flags = []string{"write"}
		case k.noAuth:
			flags = []string{"fast", "no_auth"}
		}
		b = resp.AppendArray(b, 10)
		b = resp.AppendInt(resp.AppendBulk(b, k.name), int64(k.arity))
		b = resp.AppendSet(b, v, len(flags))
		for _, flag := range flags {
			b = resp.AppendSimple(b, flag)
		}
		b = resp.AppendInt(resp.AppendInt(resp.AppendInt(b, int64(k.firstKey)), int64(k.lastKey)), int64(k.keyStep))
		b = resp.AppendSimple(resp.AppendSet(b, v, 1), "@"+k.group)
		for range 3 { // tips, key specifications, subcommands
			b = resp.AppendArray(b, 0)
		}
	}
	return b
}

// appendDocs appends what COMMAND DOCS says; commands that are not served are left out.
func (s *Server) appendDocs(b []byte, v resp.Version, names []string) []byte {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.commands[name] == nil })
	b = resp.AppendMap(b, v, len(names))
	for _, name := range names {
		b = resp.AppendMap(resp.AppendBulk(b, name), v, 2)
		b = resp.AppendBulk(resp.AppendBulk(b, "summary"), s.commands[name].summary)
		b = resp.AppendBulk(resp.AppendBulk(b, "group"), s.commands[name].group)
	}
	return b
}

func runInfo(c *connection, k *call, args [][]byte) {
	s := c.server
	identity := s.options.Identity
	sections := []struct {
		name  string
		lines []string
	}{
		{"Server", []string{
			"redis_version:" + redisVersion,
			"redis_mode:standalone",
			"server_name:georegister",
			"georegister_cluster:" + identity.Cluster,
			"georegister_member:" + strconv.Itoa(int(identity.Member)),
			"georegister_site:" + identity.Site,
			"georegister_protocol:" + identity.Protocol,
			"uptime_in_seconds:" + strconv.Itoa(int(time.Since(s.started).Seconds())),
		}},
		{"Clients", []string{
			"connected_clients:" + strconv.Itoa(s.clients()),
			"maxclients:" + strconv.Itoa(s.options.MaxConnections),
		}},
		{"Stats", []string{
			"total_connections_received:" + strconv.FormatInt(s.connected.Load(), 10),
			"total_commands_processed:" + strconv.FormatInt(s.served.Load(), 10),
		}},
		{"Replication", []string{"role:master", "connected_slaves:0"}},
	}
	var text strings.Builder
	for _, section := range sections {
		if !wanted(args[1:], section.name) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n%s\r\n", section.name, strings.Join(section.lines, "\r\n"))
	}
	k.reply(resp.AppendText(nil, k.version, text.String()))
}

// wanted reports whether INFO's arguments ask for a section.
func wanted(args [][]byte, section string) bool {
	return len(args) == 0 || slices.ContainsFunc(args, func(arg []byte) bool {
		asked := string(arg)
		return strings.EqualFold(asked, section) || strings.EqualFold(asked, "default") ||
			strings.EqualFold(asked, "all") || strings.EqualFold(asked, "everything")
	})
}

func runConfig(c *connection, k *call, args [][]byte) {
	sub := strings.ToUpper(string(args[1]))
	if sub != "GET" {
		k.fail("ERR CONFIG " + sub +
			" is not supported: the cluster is configured by its manifest; CONFIG GET is served")
		return
	}
	if len(args) < 3 {
		k.wrongArity("config|get")
		return
	}
	options := &c.server.options
	appendOnly, fsync := "no", "no"
	switch options.Identity.Durability {
	case "Sync":
		appendOnly, fsync = "yes", "always"
	case "Interval":
		appendOnly, fsync = "yes", "everysec"
	}
	parameters := [][2]string{
		{"appendfsync", fsync},
		{"appendonly", appendOnly},
		{"databases", "1"},
		{"maxclients", strconv.Itoa(options.MaxConnections)},
		{"proto-max-bulk-len", strconv.Itoa(options.Limits.ValueBytes)},
		{"save", ""},
		{"timeout", "0"},
	}
	parameters = slices.DeleteFunc(parameters, func(p [2]string) bool {
		return !slices.ContainsFunc(args[2:], func(pattern []byte) bool {
			matched, err := path.Match(strings.ToLower(string(pattern)), p[0])
			return err == nil && matched
		})
	})
	b := resp.AppendMap(nil, k.version, len(parameters))
	for _, p := range parameters {
		b = resp.AppendBulk(resp.AppendBulk(b, p[0]), p[1])
	}
	k.reply(b)
}
