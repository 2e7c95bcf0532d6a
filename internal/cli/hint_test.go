package cli_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
)

func TestHints_haveTheFlagsOfTheCommand(t *testing.T) {
	h := newHarness(t)
	guest := workspace("guest")
	guest.Annotations = map[string]string{infrav1.HostedInAnnotation: "platform"}
	h.create(workspace("net"), guest)
	kubeconfig := "--kubeconfig " + env.Kubeconfig
	flags := kubeconfig + " -n " + h.namespace
	for arguments, want := range map[string]string{
		"retry net":     "Requested a run of net: follow it with captctl " + flags + " logs -f net\n",
		"retry guest":   "Requested a run of guest: follow it with captctl " + kubeconfig + " -n platform logs -f " + h.namespace + ".guest, if you may\n",
		"approve net":   "no plan of net is waiting for approval: see captctl " + flags + " history net",
		"logs net":      "net has no runs yet: see kubectl " + flags + " describe wsta net",
		"run net":       "nothing is requested: pass --replace, --target, --refresh-only, --import or --plan-only: see captctl run --help",
		"describe nets": `unknown command "nets" for "captctl describe": see captctl describe --help`,
	} {
		var out strings.Builder
		err := execute(h.ctx, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, strings.Fields(flags+" "+arguments)...)
		if err != nil {
			out.WriteString(err.Error())
		}
		h.Expect(out.String()).To(Equal(want), arguments)
	}
}
