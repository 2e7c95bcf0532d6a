package command

import (
	"regexp"
	"strings"
	"sync"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// Patterns are matched against the summary and detail of a diagnostic. The first
// list that matches determines the class: lock, then transient, then terminal. So
// a throttled call is retried even if its status code matches a terminal pattern.
var (
	lockHeld = anyOf(`error acquiring the state lock`, `state is already locked`, `lock info:`)

	transient = anyOf(
		// Throttling.
		`throttl`, `rate exceeded`, `RequestLimitExceeded`, `too ?many ?requests`, `SlowDown`,
		`BandwidthLimitExceeded`, `PriorRequestNotComplete`, `rate limit`,
		`(status ?code|response code|code)[:= ]+(429|50[0-9]|52[0-9])\b`, `\b(429 too many|50[0-9] (internal|bad gateway|service|gateway))`,
		`ServiceUnavailable`, `InternalError\b`, `InternalFailure`, `InternalServerError`, `internal server error`, `bad gateway`, `gateway timeout`, `RequestTimeout`,
		// Network.
		`i/o timeout`, `connection (refused|reset|timed out|closed)`, `TLS handshake`, `no such host`, `could not resolve host`,
		`temporary failure in name resolution`, `network is unreachable`, `no route to host`, `broken pipe`, `unexpected EOF`,
		`: EOF\b`, `context deadline exceeded`, `Client\.Timeout`, `http2: (client|server)`, `server misbehaving`, `server closed idle connection`,
		`use of closed network connection`, `could not connect to`, `failed to connect`, `the remote end hung up`, `request send failed`, `dial tcp`,
		// The management cluster's API server and its storage.
		`etcdserver: (leader changed|request timed out|too many requests)`, `the server (is currently unable|was unable)`,
		`please apply your changes to the latest version`, `apiserver (not ready|is shutting down)`,
		// Eventual consistency: a new resource is not visible everywhere yet.
		`Invalid[A-Za-z]+\.NotFound`, `InvalidParameterValue.*(cannot be assumed|not authorized to perform|does not exist)`,
		`MalformedPolicyDocument.*(Invalid principal|principal)`, `NoSuchEntity.*(role|instance profile)`, `(role|profile).*(not yet|is not ready|propagat)`,
		`ConcurrentModification`, `OperationAborted`, `ResourceInUseException.*(in progress|updat|deleting|try again)`, `ConflictException.*(in progress|try again)`, `DependencyViolation`,
		`IncorrectState`, `please (try again|retry)`, `try again later`, `eventual(ly)? consisten`, `InsufficientInstanceCapacity`,
		// An expired token is renewed before the next run.
		`ExpiredToken`, `RequestExpired`, `token (has|is) expired`,
	)

	terminal = anyOf(
		// Permissions and credentials.
		`AccessDenied`, `access denied`, `UnauthorizedOperation`, `AuthorizationError`, `UnauthorizedAccess`, `not authorized to perform`,
		`(status ?code|response code|code)[:= ]+40[13]\b`, `\b40[13] (forbidden|unauthorized)`, `is forbidden:`, `the server has asked for the client to provide credentials`, `permission denied`, `OptInRequired`,
		`InvalidClientTokenId`, `SignatureDoesNotMatch`, `AuthFailure`, `UnrecognizedClientException`, `IncompleteSignature`, `InvalidAccessKeyId`,
		`no valid credential sources`, `could not find default credentials`, `NoCredentialProviders`, `failed to refresh cached credentials, no EC2 IMDS role`,
		`authentication failed`, `could not read Username`, `invalid credentials`, `security token included in the request is invalid`,
		// Providers and modules that do not exist.
		`no available releases`, `was not found in any of the search locations`, `does not have a provider named`, `no versions? (of|match|meet)`,
		`provider registry .* does not`, `unsupported OpenTofu core version`, `unsupported terraform core version`, `incompatible provider version`,
		`module (not found|versions? .* not)`, `unresolvable module version constraint`, `repository not found`, `pathspec .* did not match`, `couldn't find remote ref`,
		`unreadable module directory`, `locked\s+provider\s.*does\s+not\s+match\s+configured`, `unsupported attribute`, `unsupported argument`, `unsupported block type`, `missing required argument`,
		// Limits and invalid requests, which a retry does not fix.
		`LimitExceeded`, `QuotaExceeded`, `VcpuLimitExceeded`, `AlreadyExists`, `ResourceInUseException`, `already exists`, `EntityAlreadyExists`, `ValidationError`, `ValidationException`,
		`InvalidParameter`, `no value for required variable`, `invalid value for`, `precondition failed`, `instance cannot be destroyed`,
		`decryption failed`, `unencrypted payload`, `invalid encryption`, `saved plan is stale`, `failed to parse command-line flags`, `flag provided but not defined`,
		`cycle:`, `unsupported state file format`,
	)

	tooLarge = anyOf(
		`too long: (must have|may not be)`, `request entity too large`, `etcdserver: request is too large`, `trying to send message larger than max`,
	)
	stalePlan = anyOf(`saved plan is stale`, `saved plan does not match`, `the given plan file can no longer be applied`, `plan file was created with a different set of external dependency selections`)
	needsInit = anyOf(
		`backend initialization required`, `inconsistent dependency lock file`, `required plugins are not installed`, `module not installed`,
		`module source has changed`, `module version requirements have changed`, `missing required provider`, `unavailable provider`, `please run "(tofu|terraform) init"`,
		`failed to decode current backend config`, `backend configuration changed`,
	)
	backendInit = anyOf(`backend initialization required`, `failed to decode current backend config`, `backend configuration changed`)
)

// pattern is a regular expression that is compiled when it is first used. Most runs have no
// error to classify, and compiling all patterns takes as long as a request.
type pattern struct{ compiled func() *regexp.Regexp }

// MatchString reports whether a text matches.
func (p pattern) MatchString(text string) bool { return p.compiled().MatchString(text) }

func anyOf(patterns ...string) pattern {
	return pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?is)` + strings.Join(patterns, `|`)) })}
}

// Classify returns the class of a command's failure with these diagnostics.
//
// A failure that matches no pattern is transient: the wording of provider errors
// varies, and a retry with capped backoff costs little. As a terminal failure it
// might wait forever, because the user does not know which input to change.
func Classify(diagnostics terraform.Diagnostics) terraform.Class {
	known := terraform.Class("")
	for _, diagnostic := range diagnostics.Errors() {
		switch class := classify(diagnostic); class {
		case terraform.ClassLockHeld, terraform.ClassTransient:
			return class
		case terraform.ClassTerminal:
			known = class
		}
	}
	if known != "" {
		return known
	}
	return terraform.ClassTransient
}

// classify returns the class of one error, or an empty string if it is unknown.
func classify(d terraform.Diagnostic) terraform.Class {
	text := text(d)
	switch {
	case lockHeld.MatchString(text):
		return terraform.ClassLockHeld
	case tooLarge.MatchString(text), stalePlan.MatchString(text):
		return terraform.ClassTerminal
	case transient.MatchString(text):
		return terraform.ClassTransient
	case terminal.MatchString(text):
		return terraform.ClassTerminal
	case d.File != "" && d.Address == "":
		// The diagnostic refers to the configuration and not to a resource, so the
		// configuration is invalid.
		return terraform.ClassTerminal
	default:
		return ""
	}
}

// text returns the summary and detail of a diagnostic in one line.
func text(d terraform.Diagnostic) string {
	return message.OneLine(d.Summary + ": " + d.Detail)
}
