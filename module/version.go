package module

// The module's version, in one place. MODULE LIST shows it as one number:
// major x 10000 + minor x 100 + patch.
const (
	major = 0
	minor = 5
	patch = 0
)

// commit is the revision the module was built from; make build sets it.
var commit = "unknown"
