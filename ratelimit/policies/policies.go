// Package policies changes limits while a program runs. A limit in the code has a name, and stays the default. A hash in Redis may say
// otherwise, for everybody or for some keys:
//
//	HSET throttle:policies  api            "RATE 60/m BURST 20"
//	HSET throttle:policies  api/premium:*  "RATE 600/m"
//	HSET throttle:policies  api/user:42    "NONE"
package policies
