package manager

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
)

func TestProviders(t *testing.T) {
	for name, tt := range map[string]struct {
		args   []string
		groups []string
		lease  string
		want   string
	}{
		"all by default": {
			groups: []string{"infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "addons.cluster.x-k8s.io"},
			lease:  "capt-manager-leader",
		},
		"the engine has one lease": {
			args: []string{"--providers=infrastructure"}, groups: []string{"infrastructure.cluster.x-k8s.io"}, lease: "capt-manager-leader",
		},
		"another provider has another lease": {
			args: []string{"--providers=control-plane"}, groups: []string{"controlplane.cluster.x-k8s.io"}, lease: "capt-control-plane-leader",
		},
		"the order does not matter": {
			args: []string{"--providers=bootstrap,addon"}, groups: []string{"bootstrap.cluster.x-k8s.io", "addons.cluster.x-k8s.io"}, lease: "capt-addon-bootstrap-leader",
		},
		"none":    {args: []string{"--providers="}, want: "--providers is empty: set it to one or more of infrastructure, control-plane, bootstrap, addon"},
		"unknown": {args: []string{"--providers=ipam"}, want: `--providers contains "ipam": set it to one or more of infrastructure, control-plane, bootstrap, addon`},
		"twice":   {args: []string{"--providers=addon,addon"}, want: "--providers contains addon twice: remove one"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := NewOptions()
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			o.AddFlags(flags)
			g.Expect(flags.Parse(tt.args)).To(Succeed())

			err := o.validateProviders()

			if tt.want != "" {
				g.Expect(err).To(MatchError(tt.want))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.groups()).To(Equal(tt.groups))
			g.Expect(o.leaderElectionID()).To(Equal(tt.lease))
		})
	}
}

// Only the infrastructure provider runs Terraform, so the others need no program and
// no image.
func TestOptions_needRunnerOnlyForEngine(t *testing.T) {
	for provider, fails := range map[string]bool{"infrastructure": true, "control-plane": false, "bootstrap": false, "addon": false} {
		t.Run(provider, func(t *testing.T) {
			g := NewWithT(t)
			o := NewOptions()
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			o.AddFlags(flags)
			g.Expect(flags.Parse([]string{"--executor=job", "--providers=" + provider})).To(Succeed())
			// Other tests of this process may have configured the logs, which Validate reports.
			text := fmt.Sprint(o.Validate())
			g.Expect(strings.Contains(text, "--executor=job requires --runner-image")).To(Equal(fails), text)
		})
	}
}
