package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Supported settings of a profile.
const (
	profileAccessKeyID   = "aws_access_key_id"
	profileAccessKey     = "aws_secret_access_key"
	profileSession       = "aws_session_token"
	profileRegion        = "region"
	profileRoleARN       = "role_arn"
	profileSourceProfile = "source_profile"

	defaultProfile = "default"
)

// refusedSettings select credentials in ways that the manager does not support:
// they start a program, read a file, or prompt the user.
var refusedSettings = []string{
	"credential_process", "credential_source", "web_identity_token_file", "external_id", "mfa_serial",
	"sso_session", "sso_start_url", "login_session",
}

// profiles maps the names of profiles in shared credentials and config files to
// their settings.
type profiles map[string]map[string]string

// read adds a file in the format of ~/.aws/credentials or ~/.aws/config. Errors
// contain line numbers and never the content of a line. A library does not replace
// it: gopkg.in/ini.v1 quotes lines in its errors and interprets values differently
// from AWS, and the AWS SDK reads profiles from files only.
func (p profiles) read(text string) error {
	var current map[string]string
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";"):
		case strings.HasPrefix(line, "["):
			name, _, closed := strings.Cut(trimmed[1:], "]")
			if !closed {
				return fmt.Errorf("line %d: ] is missing", i+1)
			}
			name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "profile "))
			if p[name] == nil {
				p[name] = map[string]string{}
			}
			current = p[name]
		case line[0] == ' ' || line[0] == '\t':
			// Indented settings belong to the setting above. None of them is supported.
		default:
			key, content, isSetting := strings.Cut(trimmed, "=")
			if !isSetting || current == nil {
				return fmt.Errorf("line %d is not a setting of a profile", i+1)
			}
			current[strings.ToLower(strings.TrimSpace(key))] = withoutComment(content)
		}
	}
	return nil
}

// withoutComment removes a comment, which begins after a space, from a value.
func withoutComment(text string) string {
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		text, _, _ = strings.Cut(text, mark)
	}
	return strings.TrimSpace(text)
}

// takeProfile sets keys, roles and region from a profile: the named one, or else
// the only one, or else the default.
func (c *Credentials) takeProfile(all profiles, name string) error {
	if name == "" {
		name = defaultProfile
		if names := slices.Collect(maps.Keys(all)); len(names) == 1 {
			name = names[0]
		}
	}
	c.region = cmp.Or(c.region, all[name][profileRegion])
	var seen []string
	for {
		if slices.Contains(seen, name) {
			return invalid("profile %s refers to itself through %s", name, profileSourceProfile)
		}
		seen = append(seen, name)
		profile, found := all[name]
		if !found {
			return invalid("profile %s does not exist: set %s to one of %s", name, profileEnv, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		for _, setting := range refusedSettings {
			if profile[setting] != "" {
				return invalid("profile %s: %s is not supported: use access keys", name, setting)
			}
		}
		source := profile[profileSourceProfile]
		if role := profile[profileRoleARN]; role != "" {
			// The chain begins with the role that is assumed last.
			c.roles = slices.Insert(c.roles, 0, role)
			if source == "" {
				return invalid("profile %s has a %s without a %s", name, profileRoleARN, profileSourceProfile)
			}
			if source != name {
				name = source
				continue
			}
		}
		return c.takeKeys(name, profile)
	}
}

func (c *Credentials) takeKeys(name string, profile map[string]string) error {
	if profile[profileAccessKeyID] == "" || profile[profileAccessKey] == "" {
		return invalid("profile %s requires %s and %s", name, profileAccessKeyID, profileAccessKey)
	}
	c.accessKeyID = profile[profileAccessKeyID]
	c.secretAccessKey = NewSecret(profile[profileAccessKey])
	c.sessionToken = NewSecret(profile[profileSession])
	return nil
}
