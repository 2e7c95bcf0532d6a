package aws

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// Environment variables that select the credentials. They are those of every AWS
// tool, so a provider config has the same effect here as in a run.
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

// containerEnvs make a run fetch credentials from an address. The manager sends
// no requests to addresses that a provider config names.
var containerEnvs = []string{
	"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
}

// Credentials are the AWS credentials and settings of a provider config. Those
// that it does not have come from the manager's own environment variables, IRSA,
// Pod Identity or instance profile. The zero value stands for the manager's own
// identity. Printing Credentials shows no secret.
type Credentials struct {
	accessKeyID     string
	secretAccessKey Secret
	sessionToken    Secret
	// expires is when the keys expire. Zero means unknown.
	expires time.Time
	// roles are assumed in order, the first with the keys of a profile.
	roles []string

	webIdentityRole string
	// tokenFile is a file of the manager; token is the content of a file of the
	// provider config.
	tokenFile   string
	token       Secret
	sessionName string

	// profile is the name of a profile in the manager's own files.
	profile string

	region    string
	endpoints endpoints
	fips      string
}

// FromEnv returns the AWS credentials among the environment variables and files
// that a provider config passes to a run. It reads nothing but the two maps, and
// sends no request.
//
// As in a run, access keys take precedence over a web identity, and a web identity
// over a file with profiles. That file is the one that AWS_SHARED_CREDENTIALS_FILE
// or AWS_CONFIG_FILE names or, because a provider block can name one too, the only
// one that contains access keys. The manager runs no program and reads no file
// that a provider config names. FromEnv rejects such settings.
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

// Given reports whether the provider config has credentials. If it has none, the
// manager's own identity is used: a role without a token, the path of a file and the name
// of a profile refer to the manager's own token and files.
func (c Credentials) Given() bool { return c.accessKeyID != "" || !c.token.IsZero() }

// Region returns the region that the provider config names, if any.
func (c Credentials) Region() string { return c.region }

// String returns the source of the credentials, and none of their content.
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

func (c *Credentials) pickKeys(env map[string]string) error {
	c.accessKeyID = value(env, accessKeyIDEnv)
	c.secretAccessKey = NewSecret(value(env, accessKeyEnv))
	c.sessionToken = NewSecret(value(env, sessionEnv))
	if c.accessKeyID == "" {
		return invalid("%s is set without %s: add it to the credentials", accessKeyEnv, accessKeyIDEnv)
	}
	if c.secretAccessKey.IsZero() {
		return invalid("%s is set without %s: add it to the credentials", accessKeyIDEnv, accessKeyEnv)
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

// pickWebIdentity uses a token that the provider config contains, and otherwise
// the manager's own.
func (c *Credentials) pickWebIdentity(env map[string]string, files map[string][]byte) error {
	c.webIdentityRole = value(env, roleARNEnv)
	file := value(env, identityFileEnv)
	if content, found := lookUpFile(files, file); found {
		c.token = NewSecret(strings.TrimSpace(string(content)))
		if c.token.IsZero() {
			return invalid("%s: file %s is empty", identityFileEnv, file)
		}
		if c.webIdentityRole == "" {
			return invalid("%s is set without %s: add it to the credentials", identityFileEnv, roleARNEnv)
		}
		return nil
	}
	c.tokenFile = file
	return nil
}

func (c *Credentials) pickProfile(env map[string]string, files map[string][]byte) error {
	for _, name := range containerEnvs {
		if value(env, name) != "" {
			return invalid("%s works only in a run: set %s and %s instead, or remove it to use the manager's identity", name, accessKeyIDEnv, accessKeyEnv)
		}
	}
	name := cmp.Or(value(env, profileEnv), value(env, defaultProfileEnv))
	all, err := readProfiles(env, files)
	if err != nil {
		return err
	}
	if all == nil {
		c.profile = name
		return nil
	}
	return c.takeProfile(all, name)
}

// readProfiles reads the files with profiles that the provider config contains. It
// returns nil if there are none.
func readProfiles(env map[string]string, files map[string][]byte) (profiles, error) {
	var names []string
	for _, variable := range []string{configFileEnv, sharedFileEnv} {
		file := value(env, variable)
		if file == "" {
			continue
		}
		if _, found := lookUpFile(files, file); !found {
			return nil, invalid("%s names %s, which the manager does not read: add the file to the credentials and name it without a directory", variable, file)
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
			return nil, invalid("the files %s all contain access keys: set %s to one of them", strings.Join(names, ", "), sharedFileEnv)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	all := profiles{}
	for _, name := range names {
		if err := all.read(string(files[name])); err != nil {
			return nil, invalid("file %s: %v", name, err)
		}
	}
	return all, nil
}

// lookUpFile returns the content of the file that a variable names. A run's
// working directory is that of the module, which contains the files of the provider
// config.
func lookUpFile(files map[string][]byte, name string) ([]byte, bool) {
	if name == "" || path.IsAbs(name) {
		return nil, false
	}
	content, found := files[path.Base(name)]
	return content, found
}

// value returns a variable without the line break that manually created Secrets
// often end with.
func value(env map[string]string, name string) string { return strings.TrimSpace(env[name]) }

// endpoints are addresses by service, spelled as in the variables. The key of the
// address for all services is empty.
type endpoints map[string]string

// of returns the address of a service, or nil for that of AWS.
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
	for _, service := range []string{"", stsService, iamService, ec2Service, eksService, elbService, elbV2Service} {
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
