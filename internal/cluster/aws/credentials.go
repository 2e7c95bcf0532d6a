package aws

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// Variables that say who signs. They are those of every AWS tool, so a provider
// config means the same here as in a run.
const (
	accessKeyIDEnv     = "AWS_ACCESS_KEY_ID"
	accessKeyEnv       = "AWS_SECRET_ACCESS_KEY"
	sessionEnv         = "AWS_SESSION_TOKEN"
	expirationEnv      = "AWS_CREDENTIAL_EXPIRATION"
	roleARNEnv         = "AWS_ROLE_ARN"
	sessionNameEnv     = "AWS_ROLE_SESSION_NAME"
	identityFileEnv    = "AWS_WEB_IDENTITY_TOKEN_FILE"
	profileEnv         = "AWS_PROFILE"
	defaultProfileEnv  = "AWS_DEFAULT_PROFILE"
	sharedFileEnv      = "AWS_SHARED_CREDENTIALS_FILE"
	configFileEnv      = "AWS_CONFIG_FILE"
	regionEnv          = "AWS_REGION"
	defaultRegionEnv   = "AWS_DEFAULT_REGION"
	endpointEnv        = "AWS_ENDPOINT_URL"
	ignoreEndpointsEnv = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
	fipsEnv            = "AWS_USE_FIPS_ENDPOINT"
)

// containerEnvs make a run fetch credentials from an address. The manager does
// not fetch from addresses that a provider config names.
var containerEnvs = []string{
	"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
}

// Credentials say who signs requests to AWS, as far as a provider config says
// it. What it does not say comes from the manager's own surroundings:
// environment, IRSA, Pod Identity, instance profile. The zero value leaves
// everything to the manager. Printing Credentials shows no secret.
type Credentials struct {
	accessKeyID     string
	secretAccessKey Secret
	sessionToken    Secret
	// expires is when the keys end; zero means that it is not known.
	expires time.Time
	// roles are assumed one after the other with the keys of a profile.
	roles []string

	webIdentityRole string
	// tokenFile is a file of the manager; token is what the provider config
	// carries itself.
	tokenFile   string
	token       Secret
	sessionName string

	// profile is one of the manager's own files.
	profile string

	region    string
	endpoints endpoints
	fips      string
}

// FromEnv picks what concerns AWS out of the environment variables and files
// that a provider config gives to a run. Nothing is read from outside the two
// maps, and nothing is called.
//
// Access keys win over a web identity, and that over a file with profiles, as
// in a run. A file is the one that AWS_SHARED_CREDENTIALS_FILE or
// AWS_CONFIG_FILE names or, because a provider block can name one too, the only
// one that holds access keys. The manager runs no program and reads no file
// because a provider config names it; such settings are refused.
func FromEnv(env map[string]string, files map[string][]byte) (Credentials, error) {
	c := Credentials{
		region:      cmp.Or(value(env, regionEnv), value(env, defaultRegionEnv)),
		sessionName: value(env, sessionNameEnv),
		fips:        value(env, fipsEnv),
	}
	var err error
	if c.endpoints, err = pickEndpoints(env); err != nil {
		return Credentials{}, err
	}
	if c.fips != "" && c.fips != "true" && c.fips != "false" {
		return Credentials{}, invalid("%s must be true or false", fipsEnv)
	}
	switch {
	case value(env, accessKeyIDEnv) != "" || value(env, accessKeyEnv) != "":
		err = c.pickKeys(env)
	case value(env, roleARNEnv) != "" || value(env, identityFileEnv) != "":
		err = c.pickWebIdentity(env, files)
	default:
		err = c.pickProfile(env, files)
	}
	if err != nil {
		return Credentials{}, err
	}
	return c, nil
}

// Given reports whether the provider config itself has credentials. If it does
// not, the manager's own identity does.
func (c Credentials) Given() bool {
	return c.accessKeyID != "" || c.webIdentityRole != "" || c.tokenFile != "" || c.profile != ""
}

// Region returns the region that the provider config names, if any.
func (c Credentials) Region() string { return c.region }

// String tells where the credentials come from and nothing of their content.
func (c Credentials) String() string {
	from := "the manager's own"
	switch {
	case c.accessKeyID != "":
		from = "access key of the provider config"
	case !c.token.IsZero():
		from = "web identity of the provider config"
	case c.webIdentityRole != "" || c.tokenFile != "":
		from = "web identity of the manager"
	case c.profile != "":
		from = "profile of the manager"
	}
	return "AWS credentials (" + from + ")"
}

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// Format writes String for every verb.
func (c Credentials) Format(state fmt.State, _ rune) { writeString(state, c.String()) }

// MarshalText has JSON, YAML and structured logs show String.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// fingerprint is equal for equal credentials and tells nothing of them.
func (c Credentials) fingerprint(roleARN string) string {
	text, err := json.Marshal([]any{
		c.accessKeyID, c.secretAccessKey.Reveal(), c.sessionToken.Reveal(), c.roles,
		c.webIdentityRole, c.tokenFile, c.token.Reveal(), c.profile, c.endpoints, roleARN,
	})
	if err != nil {
		// Strings always encode.
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (c *Credentials) pickKeys(env map[string]string) error {
	c.accessKeyID = value(env, accessKeyIDEnv)
	c.secretAccessKey = NewSecret(value(env, accessKeyEnv))
	c.sessionToken = NewSecret(value(env, sessionEnv))
	if c.accessKeyID == "" {
		return invalid("%s is given without %s: add it to the credentials", accessKeyEnv, accessKeyIDEnv)
	}
	if c.secretAccessKey.IsZero() {
		return invalid("%s is given without %s: add it to the credentials", accessKeyIDEnv, accessKeyEnv)
	}
	if text := value(env, expirationEnv); text != "" {
		expires, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return invalid("%s must be a time such as 2026-01-02T15:04:05Z", expirationEnv)
		}
		c.expires = expires
	}
	return nil
}

// pickWebIdentity takes a token that the provider config carries, or leaves it
// to the manager's own.
func (c *Credentials) pickWebIdentity(env map[string]string, files map[string][]byte) error {
	c.webIdentityRole = value(env, roleARNEnv)
	file := value(env, identityFileEnv)
	if content, found := carried(files, file); found {
		c.token = NewSecret(strings.TrimSpace(string(content)))
		if c.token.IsZero() {
			return invalid("%s: the file %s is empty", identityFileEnv, file)
		}
		if c.webIdentityRole == "" {
			return invalid("%s is given without %s: add it to the credentials", identityFileEnv, roleARNEnv)
		}
		return nil
	}
	c.tokenFile = file
	return nil
}

func (c *Credentials) pickProfile(env map[string]string, files map[string][]byte) error {
	for _, name := range containerEnvs {
		if value(env, name) != "" {
			return invalid("%s works in a run only: give %s and %s, or leave all of them to the manager", name, accessKeyIDEnv, accessKeyEnv)
		}
	}
	name := cmp.Or(value(env, profileEnv), value(env, defaultProfileEnv))
	all, err := carriedProfiles(env, files)
	if err != nil {
		return err
	}
	if all == nil {
		c.profile = name
		return nil
	}
	return c.takeProfile(all, name)
}

// carriedProfiles reads the files with profiles that the provider config
// carries; nil means that it carries none.
func carriedProfiles(env map[string]string, files map[string][]byte) (profiles, error) {
	var names []string
	for _, variable := range []string{configFileEnv, sharedFileEnv} {
		file := value(env, variable)
		if file == "" {
			continue
		}
		if _, found := carried(files, file); !found {
			return nil, invalid("%s names %s, which the manager does not read: put the file into the credentials and name it without a directory", variable, file)
		}
		names = append(names, path.Base(file))
	}
	if len(names) == 0 {
		for name, content := range files {
			if strings.Contains(string(content), profileAccessKeyID) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if len(names) > 1 {
			return nil, invalid("the files %s all hold access keys: name one by %s", strings.Join(names, ", "), sharedFileEnv)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	all := profiles{}
	for _, name := range names {
		if err := all.read(string(files[name])); err != nil {
			return nil, invalid("the file %s: %v", name, err)
		}
	}
	return all, nil
}

// carried finds the file that a variable names. A run's working directory is
// the module's, where the files of the provider config are.
func carried(files map[string][]byte, name string) ([]byte, bool) {
	if name == "" || path.IsAbs(name) {
		return nil, false
	}
	content, found := files[path.Base(name)]
	return content, found
}

// value trims what Secrets made by hand often end in.
func value(env map[string]string, name string) string { return strings.TrimSpace(env[name]) }

// endpoints are addresses by service, in the spelling of the variables; the one
// for all services has no name.
type endpoints map[string]string

// of returns the address of a service; without one AWS's own is used.
func (e endpoints) of(service string) *string {
	for _, name := range []string{service, ""} {
		if address := e[name]; address != "" {
			return &address
		}
	}
	return nil
}

func pickEndpoints(env map[string]string) (endpoints, error) {
	if value(env, ignoreEndpointsEnv) == "true" {
		return nil, nil
	}
	picked := endpoints{}
	for _, service := range []string{"", stsService, iamService, ec2Service} {
		name := endpointEnv
		if service != "" {
			name += "_" + service
		}
		address := value(env, name)
		if address == "" {
			continue
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, invalid("%s must be an address such as https://sts.eu-west-1.amazonaws.com", name)
		}
		picked[service] = address
	}
	return picked, nil
}
