package main

const (
	noDisk      = "throttle-dev keeps nothing on disk: run a server with the module for that"
	noReplicas  = "throttle-dev has no replication: run a server with the module for that"
	noCluster   = "This instance has cluster support disabled: throttle-dev is one process"
	noUsers     = "throttle-dev has no ACL: run a server with the module for that"
	noPeeking   = "throttle-dev does not record that: run a server with the module for that"
	noLibraries = "throttle-dev has no functions, only EVAL and EVALSHA"
)

// refused are commands of servers that throttle-dev has not, with the reason. What is in no list is an unknown command.
var refused = map[string]string{
	"SAVE": noDisk, "BGSAVE": noDisk, "BGREWRITEAOF": noDisk, "LASTSAVE": noDisk, "WAITAOF": noDisk,
	"REPLICAOF": noReplicas, "SLAVEOF": noReplicas, "SYNC": noReplicas, "PSYNC": noReplicas, "REPLCONF": noReplicas, "FAILOVER": noReplicas, "MIGRATE": noReplicas,
	"CLUSTER": noCluster, "READONLY": noCluster, "READWRITE": noCluster, "ASKING": noCluster, "SSUBSCRIBE": noCluster, "SUNSUBSCRIBE": noCluster, "SPUBLISH": noCluster,
	"ACL": noUsers, "MONITOR": noPeeking, "SLOWLOG": noPeeking, "LATENCY": noPeeking, "FUNCTION": noLibraries, "FCALL": noLibraries, "FCALL_RO": noLibraries,
}
