// Throttle-replay tries limits on an access log: who would have been denied, when and for how long, and which numbers
// would have spared whom. It suggests, and sets nothing.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // for --tz where the system has no time zones

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/cmd/throttle-replay/logs"
	"redis-throttle/cmd/throttle-replay/page"
	"redis-throttle/cmd/throttle-replay/replay"
	"redis-throttle/cmd/throttle-replay/table"
)

// version is the project's; scripts/build-replay sets it.
var version = "unreleased"

type options struct {
	Files []string `arg:"" optional:"" help:"Access logs, also compressed by gzip, zstd, bzip2 or xz. - is standard input." name:"log"`

	Limit []string `help:"A limit as CL.LIMIT takes it, such as 'RATE 10/s BURST 20'. Several are decided together." placeholder:"WORDS" sep:"none"`
	Set   []string `help:"Limits to compare with others: NAME=WORDS." placeholder:"NAME=WORDS" sep:"none"`

	Gateway    []string `help:"Files and folders of throttle-gateway, whose rules are tried." placeholder:"FILE"`
	Domain     string   `help:"The domain of these files, where there are several." placeholder:"NAME"`
	Descriptor []string `help:"A descriptor that your proxy sends: KEY=TEMPLATE, entries separated by semicolons. Without it, the routes of the file say." placeholder:"KEY=TEMPLATE" sep:"none"`

	Policies     []string `help:"Policies to try: a file of lines such as api/user:42 \"RATE 5/m\", or redis://host:6379 for those that are set. Each comes on top of those before it." placeholder:"FILE" sep:"none"`
	Policy       string   `help:"The policy that --limit is the default of. Rules of a gateway say theirs." placeholder:"NAME"`
	PoliciesHash string   `help:"The key of the hash that has the policies." default:"throttle:policies" placeholder:"KEY"`

	Key          string   `help:"Who is limited: fields in braces. Of IPv6 addresses the network counts, /64 unless you say otherwise." default:"{remote_addr/64}"`
	TrustedProxy []string `help:"Networks of proxies whose X-Forwarded-For is believed, for the field {client}." placeholder:"NETWORK"`
	Where        []string `help:"Only requests for which this holds, such as 'path ~ ^/api/'. Several have to hold all." placeholder:"CONDITION" sep:"none"`
	Known        []string `help:"A group of clients that you know, such as office='remote_addr in 198.51.100.0/24': suggestions spare it, and results say what they deny it." placeholder:"NAME=CONDITION" sep:"none"`
	Cost         string   `help:"The field that says how many units a request takes, such as bytes/1024. Without it each takes one." placeholder:"FIELD"`

	Format     string        `help:"How the log is written: auto, combined, pattern, json or csv." default:"auto" enum:"auto,combined,pattern,json,csv"`
	LogFormat  string        `help:"The log_format of nginx, or the LogFormat of Apache." placeholder:"PATTERN"`
	Time       string        `help:"The field that says when a request came." placeholder:"FIELD"`
	TimeFormat string        `help:"How it says so: unix, unix_ms, unix_us, unix_ns, or a layout of Go's package time. Usual ones are found out." placeholder:"FORMAT"`
	TZ         string        `help:"The time zone of times without an offset, and of those in the report." default:"UTC" name:"tz"`
	Columns    []string      `help:"The names of the columns of a CSV file whose first line has none." placeholder:"NAME"`
	Comma      string        `help:"What separates the columns of a CSV file; \\t is a tab." default:","`
	Late       time.Duration `help:"By how much lines may be out of order." default:"1m"`

	HTML     string `help:"Write the report as a page, one file without others." placeholder:"FILE" name:"html"`
	JSON     string `help:"Write the report as JSON; - is standard output." placeholder:"FILE" name:"json"`
	Top      int    `help:"How many clients are listed." default:"5"`
	ShowKeys bool   `help:"Show keys as they are. Otherwise each is a hash, which only the same --salt makes again."`
	Salt     string `help:"Hash keys with this text, so that reports of several runs name clients alike." env:"THROTTLE_REPLAY_SALT"`
	Quiet    bool   `help:"Show no progress." short:"q"`

	MaxClients int    `help:"How many clients are kept in memory. Of more, the ones with few requests are sampled." default:"1000000"`
	Temp       string `help:"The folder for a temporary file. What it holds are times without keys." placeholder:"FOLDER"`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// mostLate is the longest --late: a month.
const mostLate = 31 * 24 * time.Hour

// sameSignal is how long further signals are the same Ctrl-C: a terminal interrupts all programs of a job, and npx and
// the script of the npm package pass it on.
const sameSignal = time.Second

func main() {
	var o options
	kong.Parse(&o, kong.Name("throttle-replay"), kong.Description("Tries limits on an access log: who would have been denied. It suggests, and sets nothing."),
		kong.Vars{"version": "throttle-replay " + version})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		time.Sleep(sameSignal)
		stop() // a second signal ends the program at once
	}()
	if err := run(ctx, &o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options, out, progress *os.File) error {
	asked, zone, err := o.read()
	if err != nil {
		return err
	}
	commands, err := o.tryPolicies(ctx, &asked, progress)
	if err != nil {
		return err
	}
	bar := newBar(progress, o.Quiet)
	asked.Progress = bar.show
	report, err := replay.Run(ctx, asked)
	bar.clear()
	if err != nil {
		return err
	}
	report.Version, report.Policies = version, commands
	if o.JSON != "" {
		if err := write(o.JSON, out, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(report)
		}); err != nil {
			return err
		}
		if o.JSON == "-" {
			return lost(report)
		}
	}
	if o.HTML != "" {
		if err := write(o.HTML, out, func(w io.Writer) error { return page.Write(w, report, zone) }); err != nil {
			return err
		}
		if o.HTML == "-" {
			return lost(report)
		}
	}
	colors := term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return errors.Join(table.Write(out, report, table.Options{Zone: zone, Colors: colors}), lost(report))
}

// mostLost is the share of lines, in percent, that may be left out of a report that is one of the whole log.
const mostLost = 5

// lost is an error for a log of which much was left out: the report is written, but whoever only looks at the exit
// status should not rely on it.
func lost(r *replay.Report) error {
	n := r.Lines.Late
	for _, u := range r.Lines.Unreadable {
		n += u.Count
	}
	if n*100 <= r.Lines.All*mostLost {
		return nil
	}
	return fmt.Errorf("%s of %s lines were left out (%s): the numbers are not those of the whole log", table.Number(n), table.Number(r.Lines.All), table.Percent(n, r.Lines.All))
}

// write writes a file, or to out for "-". A file that could not be written whole is an error.
func write(path string, out io.Writer, content func(io.Writer) error) error {
	if path == "-" {
		return content(out)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}

// read makes of the options what a run takes.
func (o *options) read() (asked replay.Options, zone *time.Location, err error) {
	if len(o.Files) == 0 {
		if term.IsTerminal(int(os.Stdin.Fd())) {
			return asked, nil, errors.New("which log? Name its file, or - for standard input; --help lists the options")
		}
		o.Files = []string{logs.Stdin}
	}
	asked = replay.Options{
		Files: o.Files, Late: o.Late, MaxClients: o.MaxClients, Top: o.Top, ShowKeys: o.ShowKeys, Salt: []byte(o.Salt), TempDir: o.Temp,
		Log: logs.Options{Format: logs.Format(o.Format), Pattern: o.LogFormat, Time: o.Time, TimeFormat: o.TimeFormat, Columns: o.Columns},
	}
	switch {
	case o.Late < 0 || o.Late > mostLate:
		return asked, nil, errors.New("--late takes a length of time from 0s to 744h, such as 1m")
	case o.MaxClients < 1000:
		return asked, nil, errors.New("--max-clients takes a number from 1000 on")
	case o.Top < 0 || o.Top > 10_000:
		return asked, nil, errors.New("--top takes a number from 0 to 10000")
	}
	comma := strings.NewReplacer(`\t`, "\t").Replace(o.Comma)
	if len(comma) != 1 || comma == `"` || comma == "\n" {
		return asked, nil, fmt.Errorf("--comma %q: expected one character, such as ; or \\t", o.Comma)
	}
	asked.Log.Comma = comma[0]
	if zone, err = time.LoadLocation(o.TZ); err != nil || o.TZ == "Local" {
		return asked, nil, fmt.Errorf("--tz %q: expected the name of a time zone, such as Europe/Berlin", o.TZ)
	}
	asked.Log.Zone = zone
	if asked.Salt == nil || o.Salt == "" {
		asked.Salt = make([]byte, 16)
		_, _ = rand.Read(asked.Salt) // never fails
	}
	trusted, err := fields.ParseNetworks(o.TrustedProxy)
	if err != nil {
		return asked, nil, fmt.Errorf("--trusted-proxy: %w", err)
	}
	if asked.Key, err = fields.ParseKey(o.Key, trusted); err != nil {
		return asked, nil, err
	}
	if asked.Where, err = fields.ParseWhere(o.Where); err != nil {
		return asked, nil, err
	}
	if asked.Known, err = replay.ParseKnown(o.Known); err != nil {
		return asked, nil, err
	}
	if asked.Cost, err = fields.ParseCost(o.Cost); err != nil {
		return asked, nil, err
	}
	switch {
	case len(o.Gateway) > 0:
		g, err := o.gateway()
		if err != nil {
			return asked, nil, err
		}
		asked.Gateways = []replay.Gateway{g}
	case o.Domain != "" || len(o.Descriptor) > 0:
		return asked, nil, errors.New("--domain and --descriptor go with --gateway")
	}
	asked.Sets, err = o.sets()
	return asked, zone, err
}

// gateway reads --gateway and what goes with it.
func (o *options) gateway() (*gateway, error) {
	trusted, err := fields.ParseNetworks(o.TrustedProxy)
	if err != nil {
		return nil, err
	}
	return newGateway(o.Gateway, o.Domain, o.Descriptor, trusted)
}

// sets are --limit, which together are one, and each --set.
func (o *options) sets() (all []replay.Set, err error) {
	if len(o.Limit) > 0 {
		all = append(all, replay.Set{Name: "limits", Words: strings.Join(o.Limit, " ")})
	}
	for _, text := range o.Set {
		name, words, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("--set %q: expected NAME=WORDS, such as strict='RATE 5/s BURST 10'", text)
		}
		for _, other := range all {
			if other.Name == name {
				return nil, fmt.Errorf("--set %s is there twice", name)
			}
		}
		all = append(all, replay.Set{Name: name, Words: strings.TrimSpace(words)})
	}
	return all, nil
}
