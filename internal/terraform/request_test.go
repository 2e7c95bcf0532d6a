package terraform

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestHolder_Held(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 15, 2, 19, second, 0, time.UTC) }
	holder := Holder{Host: "node-1", Since: at(10), Until: at(20)}
	for name, tc := range map[string]struct {
		who, created string
		want         bool
	}{
		"during the run":              {"root@node-1", "2026-11-15T02:19:15Z", true},
		"fractions of a second":       {"root@node-1", "2026-11-15T02:19:15.467540864Z", true},
		"as the tool prints it":       {"root@node-1", "2026-11-15 02:19:15.467540864 +0000 UTC", true},
		"in another time zone":        {"root@node-1", "2026-11-15T03:19:15+01:00", true},
		"at the start":                {"root@node-1", "2026-11-15T02:19:10Z", true},
		"at the end":                  {"root@node-1", "2026-11-15T02:19:20Z", true},
		"before the run":              {"root@node-1", "2026-11-15T02:19:09Z", false},
		"after the run":               {"root@node-1", "2026-11-15T02:19:21Z", false},
		"printed, after the run":      {"root@node-1", "2026-11-15 02:19:20.1 +0000 UTC", false},
		"on another host":             {"root@node-2", "2026-11-15T02:19:15Z", false},
		"on a host with that suffix":  {"root@big-node-1", "2026-11-15T02:19:15Z", false},
		"without a user":              {"node-1", "2026-11-15T02:19:15Z", false},
		"at an unknown time":          {"root@node-1", "", false},
		"at an unparsable time":       {"root@node-1", "yesterday", false},
		"of an unknown user and host": {"", "2026-11-15T02:19:15Z", false},
	} {
		NewWithT(t).Expect(holder.Held(LockInfo{Who: tc.who, Created: tc.created})).To(Equal(tc.want), name)
	}
}

func TestRequest_Redactor(t *testing.T) {
	request := &Request{
		Env: map[string]string{
			"KEY": "-----BEGIN-----\n  a line of the key\n8 bytes!\nshort\n", "TOKEN": "s3cr3t-token", "PIN": "1234", "PLAIN": "not a secret",
		},
		SecretEnv: []string{"KEY", "TOKEN", "PIN"},
	}
	for text, want := range map[string]string{
		"use s3cr3t-token, s3cr3t-token":                               "use (sensitive value), (sensitive value)",
		"-----BEGIN-----\n  a line of the key\n8 bytes!\nshort, after": "(sensitive value), after",
		"at: a line of the key":                                        "at: (sensitive value)",
		"8 bytes!":                                                     "(sensitive value)",
		"short 1234 not a secret":                                      "short 1234 not a secret",
	} {
		NewWithT(t).Expect(request.Redactor().Replace(text)).To(Equal(want))
	}
	NewWithT(t).Expect((&Request{}).Redactor().Replace("text")).To(Equal("text"))
}

func TestBackend_names(t *testing.T) {
	g := NewWithT(t)
	backend := Backend{SecretSuffix: "hello-ws", Labels: map[string]string{"tfstateWorkspace": "other", "team": "a"}}
	g.Expect(backend.StateSecretName()).To(Equal("tfstate-default-hello-ws"))
	g.Expect(backend.LeaseName()).To(Equal("lock-tfstate-default-hello-ws"))
	g.Expect(backend.StateLabels()).To(Equal(map[string]string{
		"tfstate": "true", "tfstateSecretSuffix": "hello-ws", "tfstateWorkspace": "other", "app.kubernetes.io/managed-by": "terraform", "team": "a",
	}))
}

func TestIsConfig(t *testing.T) {
	for name, want := range map[string]bool{
		"main.tf": true, "main.tofu": true, "main.tf.json": true, "main.tofu.json": true,
		".hidden.tf": false, "main.tf~": false, "main.json": false, "README.md": false, "terraform.tfvars": false, ".terraform.lock.hcl": false,
	} {
		NewWithT(t).Expect(IsConfig(name)).To(Equal(want), name)
	}
}

func TestIsAutoVars(t *testing.T) {
	for name, want := range map[string]bool{
		"terraform.tfvars": true, "terraform.tfvars.json": true, "a.auto.tfvars": true, "a.auto.tfvars.json": true,
		"other.tfvars": false, "a.tfvars.json": false, "main.tf": false, "terraform.tfvars.bak": false,
	} {
		NewWithT(t).Expect(IsAutoVars(name)).To(Equal(want), name)
	}
}
