package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/runnertest"
	"github.com/appthrust/capt/internal/testenv/statetest"
)

// gatedStack returns the files of a module whose resource is created when the file exists.
func gatedStack(text, file string) map[string]string {
	return map[string]string{"stack/main.tf": `variable "suffix" {
  type    = string
  default = ""
}
resource "terraform_data" "a" {
  input = "` + text + `${var.suffix}"
  triggers_replace = ["` + text + `"]
  provisioner "local-exec" { command = "until test -e ` + file + `; do sleep 0.1; done" }
}
output "a" { value = terraform_data.a.output }
`}
}

// TestFlux_followsGit takes a GitRepository of the real source-controller through new
// revisions, failures and a restart that loses its artifacts.
func TestFlux_followsGit(t *testing.T) {
	w, flux := newSourceController(t)
	repo := newRepository(w)
	gate := filepath.Join(w.dir, "gate")
	first := repo.commit(gatedStack("first", gate))
	w.source("GitRepository", "infra", "{interval: 5s, url: '"+repo.url+"', ref: {branch: main}}")
	w.template("git", "", fluxModule("GitRepository", "infra"))
	w.apply("hello", "git", manual)
	message := func(kind string) func() string { return func() string { return w.message("hello", kind) } }
	revision := func() string {
		if module := w.get("hello").Status.Module; module != nil {
			return module.Revision
		}
		return ""
	}

	// The revision is resolved and planned. While the plan is applied, the source moves on
	// and source-controller deletes the artifact.
	w.Eventually(revision, testTimeout).Should(Equal(first))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	planned := w.get("hello").Status
	w.Expect(planned.Module.Artifact).To(Equal(flux.artifact("GitRepository", "infra", "digest")))
	url := flux.artifact("GitRepository", "infra", "url")
	w.Expect(w.status(url)).To(Equal(200))
	w.forgetDirectory("hello")
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = planned.Plan.ID })
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunInProgressReason)
	second := repo.commit(gatedStack("second", gate))
	w.Eventually(func() string { return flux.artifact("GitRepository", "infra", "revision") }, testTimeout).Should(Equal(second))
	w.Eventually(func() int { return w.status(url) }, testTimeout).Should(Equal(404), "the artifact of the plan is deleted")
	w.Expect(os.WriteFile(gate, nil, 0o600)).To(Succeed())

	// What was planned is applied, and the new revision is planned by itself. The approval
	// of the earlier plan is not one of this plan.
	w.Eventually(revision, testTimeout).Should(Equal(second))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	next := w.get("hello").Status
	w.Expect(next.Plan.ID).NotTo(Equal(planned.Plan.ID))
	applied := next.History[1]
	w.Expect([]string{string(applied.Operation), string(applied.Outcome)}).To(Equal([]string{"Apply", "Succeeded"}))
	w.Expect(w.captctl("show", "plan", "hello").out).To(MatchRegexp(`"first" +-> +"second"`))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = next.Plan.ID })
	w.Eventually(w.output("hello"), testTimeout).Should(Equal("second"))
	w.waitReady("hello")

	// A source that is suspended, or fails, is named. Its last artifact stays in use.
	flux.patch("GitRepository", "infra", `{"spec":{"suspend":true}}`)
	w.Eventually(message(infrav1.DependenciesReadyCondition), testTimeout).Should(Equal("GitRepository " + w.namespace + "/infra is suspended: its last artifact is used"))
	flux.patch("GitRepository", "infra", `{"spec":{"suspend":false,"ref":{"branch":"missing"}}}`)
	w.Eventually(message(infrav1.DependenciesReadyCondition), testTimeout).Should(And(
		HavePrefix("GitRepository "+w.namespace+"/infra is not ready, and its last artifact is used: "), ContainSubstring("couldn't find remote ref")))
	w.waitReady("hello")
	flux.patch("GitRepository", "infra", `{"spec":{"ref":{"branch":"main"}}}`)
	w.Eventually(message(infrav1.DependenciesReadyCondition), testTimeout).Should(BeEmpty())

	// While source-controller is down, new inputs wait, and nothing is destroyed.
	flux.stop()
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Approval, a.Spec.Variables = infrav1.ApprovalAuto, map[string]infrav1.Value{"suffix": infrav1.StringValue("!")}
	})
	waiting := w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForSourceReason)
	w.Expect(waiting.Message).To(And(HavePrefix("GitRepository "+w.namespace+"/infra: downloading the artifact: "), ContainSubstring("connection refused")))
	w.Expect(w.get("hello").Status.State.Resources).To(BeEquivalentTo(1))

	// Another pod of source-controller has no artifacts until it has fetched them.
	flux.start()
	w.Eventually(w.output("hello"), testTimeout).Should(Equal("second!"))
	w.Expect(revision()).To(Equal(second))
	w.waitReady("hello")

	// The destruction needs no source-controller.
	flux.stop()
	w.forgetDirectory("hello")
	w.destroy("hello")
}

// TestFlux_followsOCI takes the module from files that were pushed to a registry, which
// source-controller unpacks or, with operation copy, provides as they are.
func TestFlux_followsOCI(t *testing.T) {
	w, flux := newSourceController(t)
	images := newImages(w)
	names := map[string]string{"unpacked": "", "copied": ", layerSelector: {mediaType: '" + fluxLayer + "', operation: copy}"}
	first := images.push(stack("first"))
	for name, selector := range names {
		w.source("OCIRepository", name, "{interval: 5s, insecure: true, url: 'oci://"+images.host+"/infra', ref: {tag: latest}"+selector+"}")
		w.template(name, "", fluxModule("OCIRepository", name))
		w.apply(name, name)
	}
	follows := func(name, revision, output string) {
		t.Helper()
		w.Eventually(w.output(name), testTimeout).Should(Equal(output), name)
		status := w.waitReady(name).Status
		w.Expect(status.Module.Revision).To(Equal(revision), name)
		w.Expect(status.Module.Artifact).To(Equal(flux.artifact("OCIRepository", name, "digest")), name)
	}
	for name := range names {
		follows(name, first, "first")
	}
	second := images.push(stack("second"))
	for name := range names {
		follows(name, second, "second")
	}
}

// TestFlux_followsABucket takes the module from the objects of an S3 bucket.
func TestFlux_followsABucket(t *testing.T) {
	w, flux := newSourceController(t)
	address := os.Getenv(runnertest.S3Env)
	w.Expect(address).NotTo(BeEmpty(), "%s has no address of an S3 server: use `make test-flux`", runnertest.S3Env)
	bucket := &statetest.S3{Address: address, Bucket: w.namespace}
	w.Expect(bucket.CreateBucket(w.ctx)).To(Succeed())
	upload := func(files map[string]string) {
		for name, text := range files {
			w.Expect(bucket.Put(w.ctx, name, []byte(text))).To(Succeed())
		}
	}
	upload(stack("first"))
	secret := &corev1.Secret{ObjectMeta: w.meta("bucket"), StringData: map[string]string{"accesskey": "test", "secretkey": "test"}}
	w.create(secret)
	w.source("Bucket", "infra", "{interval: 5s, provider: generic, insecure: true, endpoint: '"+strings.TrimPrefix(address, "http://")+"', bucketName: '"+bucket.Bucket+"', secretRef: {name: bucket}}")
	w.template("bucket", "", fluxModule("Bucket", "infra"))
	w.apply("hello", "bucket")
	w.Eventually(w.output("hello"), testTimeout).Should(Equal("first"))
	w.waitReady("hello")
	upload(stack("second"))
	w.Eventually(w.output("hello"), testTimeout).Should(Equal("second"))
	status := w.waitReady("hello").Status
	w.Expect(status.Module.Revision).To(And(HavePrefix("sha256:"), Equal(flux.artifact("Bucket", "infra", "revision"))))
}
