package aws

import "testing"

// Provider configs contain files with AWS profiles.
func FuzzAWSProfile(f *testing.F) {
	f.Add([]byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n"), "default")
	f.Add([]byte("[profile x]\nrole_arn = r\nsource_profile = x\n"), "x")
	f.Add([]byte("[profile x]\ncredential_process = /bin/sh\n"), "x")
	f.Add([]byte("[default]\nrole_arn = r\nweb_identity_token_file = /token\naws_access_key_id = a\naws_secret_access_key = b\n"), "")
	f.Add([]byte("["), "")
	f.Fuzz(func(t *testing.T, content []byte, profile string) {
		given, err := FromEnv(map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "credentials", "AWS_PROFILE": profile}, map[string][]byte{"credentials": content})
		if err == nil && !given.Given() {
			t.Fatal("the identity of the manager would be used")
		}
	})
}
