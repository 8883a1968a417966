package linearizability

import (
	"strconv"
	"time"

	"redis-throttle/tests/hosts"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// node is a server and its host.
type node struct {
	*server.Server
	host   *hosts.Host
	number int // from 1 on
}

// try sends a server a command that it may not answer.
func (n *node) try(words ...string) (resp.Value, error) {
	c, err := resp.DialWithin(n.Addr(), time.Second)
	if err != nil {
		return resp.Value{}, err
	}
	defer c.Close()
	return c.DoWithin(5*time.Second, words...)
}

// does says whether a server did what it was told.
func (n *node) does(words ...string) bool {
	v, err := n.try(words...)
	return err == nil && !v.IsError()
}

// info is a field of INFO; "" when there is no answer.
func (n *node) info(section, field string) string {
	v, err := n.try("INFO", section)
	if err != nil {
		return ""
	}
	return server.ParseInfo(v.Text)[field]
}

func (n *node) leads() bool { return n.info("replication", "role") == "master" }

func (n *node) follows(master *node) bool {
	v, err := n.try("INFO", "replication")
	if err != nil {
		return false
	}
	link := server.ParseInfo(v.Text)
	return link["role"] == "slave" && link["master_host"] == master.Host && link["master_port"] == strconv.Itoa(master.Port) && link["master_link_status"] == "up"
}
