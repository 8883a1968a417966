package main

// licenses are the SPDX identifiers of the modules that may be linked into a release, each
// read off the module's own license file. A module that is not here stops the release
// until somebody has looked at its terms.
var licenses = map[string]string{
	"github.com/cpuguy83/go-md2man/v2":   "MIT",
	"github.com/russross/blackfriday/v2": "BSD-2-Clause",
	"github.com/urfave/cli":              "MIT",
	"github.com/wenerme/go-rm":           "Apache-2.0",
	"github.com/wenerme/letsgo":          "Apache-2.0",
	goStandardLibrary:                    "BSD-3-Clause",
}
