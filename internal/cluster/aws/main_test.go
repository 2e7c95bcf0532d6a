package aws_test

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

// TestMain removes the AWS identity of the test process, which acts as the manager.
func TestMain(m *testing.M) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AWS_") {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	_ = os.Setenv("AWS_CONFIG_FILE", os.DevNull)
	_ = os.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	os.Exit(m.Run())
}

// given returns an environment with changes; an empty value removes a variable.
func given(env map[string]string, changes ...string) map[string]string {
	changed := map[string]string{}
	maps.Copy(changed, env)
	for i := 0; i < len(changes); i += 2 {
		changed[changes[i]] = changes[i+1]
	}
	return changed
}

func load(g *WithT, env map[string]string, options aws.Options) aws.Config {
	credentials, err := aws.FromEnv(env, nil)
	g.Expect(err).NotTo(HaveOccurred())
	cfg, err := aws.Load(context.Background(), credentials, options)
	g.Expect(err).NotTo(HaveOccurred())
	return cfg
}

// signer returns the ARN that a config signs a token with.
func signer(g *WithT, t *testing.T, server *awstest.Server, cfg aws.Config) string {
	token, err := aws.SignToken(t.Context(), cfg, "demo", time.Now)
	g.Expect(err).NotTo(HaveOccurred())
	authenticator := awstest.NewAuthenticator(t, server, "demo")
	keys, err := authenticator.Verify(t.Context(), token.Value.Reveal())
	g.Expect(err).NotTo(HaveOccurred())
	return keys.ARN
}
