// Package docs tests what README.md and docs/ say, on a real server.
//
// A fenced block whose first line begins with "$ " is a session: commands, and what they
// print. Every page has a fresh server, on which its sessions run one after the other, each
// command in a terminal of its own, as a reader would run it. What a command prints has
// to be what the page says, with these differences and no others:
//
//   - "..." in a line of the page stands for any text, and as a whole line for any number of
//     lines.
//   - Pages show times as if no time went by between the commands. The time that did go
//     by since the page's first command may be missing from retry_after_ms, reset_after_ms,
//     next_after_ms, lease_ms and wait_ms, and the whole seconds of it from the last two numbers of
//     CL.THROTTLE. Only CL.WAIT's wait_ms may be more: up to the time that the command took.
//   - A command that subscribes goes on until the page's last, and is looked at then.
//   - The bytes that od prints are explained by the table that follows. The bytes of a row
//     that mentions an instant or time may differ.
//
// Other blocks: lines of a block marked sh are commands that have to exist (see
// shellLines), a block that begins with "loadmodule" is a configuration to start a server
// with, and one marked json has to be that.
package docs
