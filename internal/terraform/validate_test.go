package terraform

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func valid() *Request {
	return &Request{
		RunID: "r", Operation: OperationPlanAndApply,
		Module:  Module{Source: SourceInline, Format: FormatHCL, Content: "# nothing"},
		Backend: Backend{Type: BackendKubernetes, Namespace: "n", SecretSuffix: "cluster-x"},
		Files:   map[string][]byte{"provider.tf": nil, "sub/credentials": nil},
		Env:     map[string]string{"TF_VAR_a": "b", "AWS_REGION": "eu"},
		Timeout: time.Minute, Grace: time.Second,
	}
}

func TestRequest_Validate(t *testing.T) {
	tests := []struct {
		change func(*Request)
		want   string
	}{
		{func(*Request) {}, ""},
		{func(r *Request) { r.RunID = "" }, "runID is empty"},
		{func(r *Request) { r.Operation = "Guess" }, `operation "Guess" is unknown`},
		{func(r *Request) { r.Operation = OperationApply }, "operation Apply requires the plan to apply"},
		{func(r *Request) { r.Module.Source = "" }, `module source "" is unknown: use Inline or Remote`},
		{func(r *Request) { r.Module.Format = "YAML" }, `module format "YAML" is unknown: use HCL or JSON`},
		{func(r *Request) { r.Module = Module{Source: SourceRemote} }, "module address is empty"},
		{func(r *Request) { r.Module = Module{Source: SourceRemote, Address: "../x"} }, `module address "../x" is relative: use an absolute path or a remote address`},
		{func(r *Request) { r.Module = Module{Source: SourceRemote, Address: "a", Entrypoint: "../x"} }, `entrypoint "../x" is outside the module: write a relative path without ..`},
		{func(r *Request) { r.Backend.SecretSuffix = "" }, "backend kubernetes requires namespace and secretSuffix"},
		{func(r *Request) { r.Backend.SecretSuffix = "cluster-1" }, `backend secretSuffix "cluster-1" ends in a dash and a number, which Terraform rejects`},
		{func(r *Request) { r.Files["../x"] = nil }, `file "../x" is outside the module's directory: write a relative path without ..`},
		{func(r *Request) { r.Files["/etc/x"] = nil }, `file "/etc/x" is outside the module's directory: write a relative path without ..`},
		{func(r *Request) { r.Files[".terraform/x"] = nil }, `file ".terraform/x" has a name that is reserved for the engine: rename it`},
		{func(r *Request) { r.Files["zz_capt_override.tf"] = nil }, `file "zz_capt_override.tf" has a name that is reserved for the engine: rename it`},
		{func(r *Request) { r.Env["TF_LOG"] = "trace" }, "environment variable TF_LOG is set by the engine: remove it"},
		{func(r *Request) { r.Env["TF_CLI_ARGS_plan"] = "-out=x" }, "environment variable TF_CLI_ARGS_plan is set by the engine: remove it"},
		{func(r *Request) { r.Env["TF_WORKSPACE"] = "x" }, "environment variable TF_WORKSPACE is set by the engine: remove it"},
		{func(r *Request) { r.Env["A=B"] = "x" }, `environment variable "A=B" has an invalid name: use letters, digits, '_', '-' and '.'`},
		{func(r *Request) { r.Env["A"] = "s3cr3t\x00" }, "environment variable A contains a NUL byte"},
		{func(r *Request) { r.PlanArgs = []string{"-out=x"} }, "planArgs: -out is set by the engine: remove it"},
	}
	for _, test := range tests {
		g := NewWithT(t)
		request := valid()
		test.change(request)
		if err := request.Validate(); test.want == "" {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(test.want))
		}
	}
}

func TestRequest_survivesJSON(t *testing.T) {
	g := NewWithT(t)
	request := valid()
	request.Files["binary"] = []byte{0xff, 0, 1}
	data, err := json.Marshal(request)
	g.Expect(err).NotTo(HaveOccurred())
	var read Request
	g.Expect(json.Unmarshal(data, &read)).To(Succeed())
	remarshaled, err := json.Marshal(&read)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(remarshaled).To(MatchJSON(data))
	g.Expect(read.Files["binary"]).To(Equal(request.Files["binary"]))
}

func TestRequest_Secrets(t *testing.T) {
	g := NewWithT(t)
	request := &Request{Env: map[string]string{"LONG": "long enough", "SHORT": "x", "PLAIN": "not a secret"}, SecretEnv: []string{"LONG", "SHORT", "ABSENT"}}
	g.Expect(request.Secrets()).To(Equal([]string{"long enough"}))
}
