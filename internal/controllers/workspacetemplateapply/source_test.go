package workspacetemplateapply

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/kubernetes/flux"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestStoreArtifact(t *testing.T) {
	const text, digest = "hello", "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	ref := terraform.WorkspaceRef{Namespace: "n", Name: "w", UID: "u"}
	name := record.ModuleName(ref, digest)
	provided := func(digest string) *sources.ModuleArtifact {
		return &sources.ModuleArtifact{Kind: "Bucket", Key: client.ObjectKey{Namespace: "n", Name: "b"}, Artifact: &flux.Artifact{URL: server.URL + "/bucket/n/b/1", Digest: digest}}
	}
	for title, tc := range map[string]struct {
		pin      *terraform.ModuleContent
		digest   string
		provided *sources.ModuleArtifact
		fetcher  *flux.Fetcher
		archive  string
		stored   bool
		reason   string
		stalled  bool
	}{
		"a new artifact":                 {digest: digest, provided: provided(digest), fetcher: &flux.Fetcher{Hosts: []string{host}, Limit: 5}, archive: name, stored: true},
		"content that is stored":         {pin: &terraform.ModuleContent{Archive: "a"}, digest: digest, provided: provided(digest)},
		"content that is not stored":     {pin: &terraform.ModuleContent{}, digest: digest, provided: provided("sha256:other"), archive: name},
		"the same after the source left": {pin: &terraform.ModuleContent{}, digest: digest, archive: name},
		"another digest":                 {digest: "sha256:00", provided: provided("sha256:00"), fetcher: &flux.Fetcher{Hosts: []string{host}, Limit: 5}, reason: infrav1.WaitingForSourceReason},
		"a host that is not allowed":     {digest: digest, provided: provided(digest), reason: infrav1.NotAllowedReason, stalled: true},
		"a large artifact":               {digest: digest, provided: provided(digest), fetcher: &flux.Fetcher{Hosts: []string{host}, Limit: 4}, reason: infrav1.RunFailedReason, stalled: true},
	} {
		c := newTestController(t)
		c.reconciler.Artifacts = cmp.Or(tc.fetcher, &flux.Fetcher{})
		artifact := &terraform.Artifact{Source: "Bucket/b", Digest: tc.digest}
		request := &terraform.Request{RunID: "w-r1", Workspace: ref, Module: terraform.Module{Source: terraform.SourceFlux, Artifact: artifact, Pin: tc.pin}}
		for range 2 {
			request.Module.Artifact = artifact
			err := c.reconciler.build().execution.StoreArtifact(t.Context(), tc.provided, request)
			if tc.reason != "" {
				stalled, isStalled := fault.AsStalled(err)
				waiting, isWaiting := fault.AsWaiting(err)
				c.Expect(isStalled).To(Equal(tc.stalled), title)
				c.Expect(isStalled && stalled.Reason == tc.reason || isWaiting && waiting.Reason == tc.reason).To(BeTrue(), "%s: %v", title, err)
				continue
			}
			c.Expect(err).NotTo(HaveOccurred(), "%s: it is idempotent", title)
			c.Expect(request.Module.Artifact.Archive).To(Equal(tc.archive), title)
		}
		c.Expect(artifact.Archive).To(BeEmpty(), "%s: the inputs do not change", title)
		err := c.server.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: record.ChunkName(name, 0)}, &corev1.Secret{})
		c.Expect(err == nil).To(Equal(tc.stored), title)
	}
}
