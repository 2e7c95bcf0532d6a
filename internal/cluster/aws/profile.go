package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings of a profile that are understood.
const (
	profileAccessKeyID   = "aws_access_key_id"
	profileAccessKey     = "aws_secret_access_key"
	profileSession       = "aws_session_token"
	profileRegion        = "region"
	profileRoleARN       = "role_arn"
	profileSourceProfile = "source_profile"

	defaultProfile = "default"
)

// refusedSettings change who signs in ways that the manager does not follow:
// they start a program, read a file, or prompt the user.
var refusedSettings = []string{
	"credential_process", "credential_source", "web_identity_token_file", "external_id", "mfa_serial",
	"sso_session", "sso_start_url", "login_session",
}

// profiles are the settings of each profile of shared credentials and config
// files.
type profiles map[string]map[string]string

// read adds a file in the format of ~/.aws/credentials or ~/.aws/config. Errors
// name lines and never repeat them.
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
			// Indented settings belong to the setting above; none of those matters here.
		default:
			key, content, isSetting := strings.Cut(trimmed, "=")
			if !isSetting || current == nil {
				return fmt.Errorf("line %d is no setting of a profile", i+1)
			}
			current[strings.ToLower(strings.TrimSpace(key))] = withoutComment(content)
		}
	}
	return nil
}

// withoutComment ends a value where a comment after a space begins.
func withoutComment(text string) string {
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		text, _, _ = strings.Cut(text, mark)
	}
	return strings.TrimSpace(text)
}

// takeProfile takes keys, roles and region of a profile: the named one, else
// the default, else the only one.
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
			return invalid("profile %s has itself as %s", name, profileSourceProfile)
		}
		seen = append(seen, name)
		profile, found := all[name]
		if !found {
			return invalid("there is no profile %s, only %s: set %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "), profileEnv)
		}
		for _, setting := range refusedSettings {
			if profile[setting] != "" {
				return invalid("profile %s: the manager does not follow %s: give access keys", name, setting)
			}
		}
		source := profile[profileSourceProfile]
		if role := profile[profileRoleARN]; role != "" {
			// Roles are found from the last to the first.
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
		return invalid("profile %s needs %s and %s", name, profileAccessKeyID, profileAccessKey)
	}
	c.accessKeyID = profile[profileAccessKeyID]
	c.secretAccessKey = NewSecret(profile[profileAccessKey])
	c.sessionToken = NewSecret(profile[profileSession])
	return nil
}
