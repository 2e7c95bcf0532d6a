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
		Env:     map[string]string{"AWS_REGION": "eu"},
		Timeout: time.Minute, Grace: time.Second,
	}
}

func TestRequest_Validate(t *testing.T) {
	tests := []struct {
		change func(*Request)
		want   string
	}{
		{func(*Request) {}, ""},
		{func(r *Request) { r.Operation = "Guess" }, `operation "Guess" is unknown`},
		{func(r *Request) { r.Operation = OperationApply }, "operation Apply requires the plan to apply"},
		{func(r *Request) { r.Module.Source = "" }, `module source "" is unknown: use Inline, Remote or Flux`},
		{func(r *Request) { r.Module = Module{Source: SourceRemote} }, "module address is empty"},
		{func(r *Request) { r.Module = Module{Source: SourceRemote, Address: "../x"} }, `module address "../x" is relative: use an absolute path or a remote address`},
		{func(r *Request) { r.Module = Module{Source: SourceRemote, Address: "a", Entrypoint: "../x"} }, `entrypoint "../x" is outside the module: write a relative path without '..'`},
		{func(r *Request) { r.Files["../x"] = nil }, `file "../x" is outside the module's directory: write a relative path without '..'`},
		{func(r *Request) { r.Files["/etc/x"] = nil }, `file "/etc/x" is outside the module's directory: write a relative path without '..'`},
		{func(r *Request) { r.Files[".terraform/x"] = nil }, `file ".terraform/x" has a name that is reserved for the engine: rename it`},
		{func(r *Request) { r.Files["zz_capt_override.tf"] = nil }, `file "zz_capt_override.tf" has a name that is reserved for the engine: rename it`},
		{func(r *Request) { r.Env["TF_LOG"] = "trace" }, "environment variable TF_LOG is set by the engine: remove it"},
		{func(r *Request) { r.Env["TF_CLI_ARGS_plan"] = "-out=x" }, "environment variable TF_CLI_ARGS_plan is set by the engine: remove it"},
		{func(r *Request) { r.Env["TF_WORKSPACE"] = "x" }, "environment variable TF_WORKSPACE is set by the engine: remove it"},
		{func(r *Request) { r.Env["A=B"] = "x" }, `environment variable "A=B" has an invalid name: use letters, digits, '_', '-' and '.'`},
		{func(r *Request) { r.Env["A"] = "s3cr3t\x00" }, "environment variable A contains a NUL byte"},
		{func(r *Request) { r.Operation = OperationApply; r.Plan = &PlanRef{} }, "operation Apply requires the plan to apply"},
		{func(r *Request) { r.Operation = OperationApply; r.Plan = &PlanRef{ID: "plan-1"} }, ""},
		{func(r *Request) { r.Operation = OperationRestoreState }, "operation RestoreState requires the snapshot to restore"},
		{func(r *Request) { r.Operation = OperationRestoreState; r.Snapshot = "s" }, ""},
		{func(r *Request) { r.Operation = OperationStateCommand }, "operation StateCommand requires the command"},
		{func(r *Request) {
			r.Operation, r.StateCommand = OperationStateCommand, &StateCommand{ID: "1", Command: StateList}
		}, ""},
		{func(r *Request) { r.Operation = OperationMoveState }, "operation MoveState requires the backend that has the state"},
		{func(r *Request) {
			r.Operation, r.From = OperationMoveState, &Request{Backend: Backend{Type: "s3", HCL: "x = 1"}}
		}, ""},
		{func(r *Request) { r.Module = Module{Source: SourceRemote, Address: "./x"} }, `module address "./x" is relative: use an absolute path or a remote address`},
		{func(r *Request) { r.Module = Module{Source: SourceRemote, Address: "a", Entrypoint: "x/../y"} }, ""},
		{func(r *Request) { r.Module = Module{Source: SourceRemote, Address: "a", Entrypoint: "."} }, `entrypoint "." is outside the module: write a relative path without '..'`},
		{func(r *Request) { r.Files[""] = nil }, `file "" is outside the module's directory: write a relative path without '..'`},
		{func(r *Request) { r.Files[".."] = nil }, `file ".." is outside the module's directory: write a relative path without '..'`},
		{func(r *Request) { r.Files["..x"] = nil }, ""},
		{func(r *Request) { r.Files[`a\b`] = nil }, `file "a\\b" is outside the module's directory: write a relative path without '..'`},
		{func(r *Request) { r.Files["sub/zz_capt_x"] = nil }, `file "sub/zz_capt_x" has a name that is reserved for the engine: rename it`},
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
	request := &Request{
		Env: map[string]string{"LONG": "long enough", "SHORT": "x", "ON": "true", "PLAIN": "not a secret"}, SecretEnv: []string{"LONG", "SHORT", "ON", "ABSENT"},
		Variables: map[string]json.RawMessage{
			"pin": json.RawMessage(`"4f2"`), "number": json.RawMessage(`917`), "list": json.RawMessage(`"[\"q7z\"]"`),
			"object": json.RawMessage(`{"name":{"key":["k8w",{"on":false,"port":6543}]}}`), "plain": json.RawMessage(`"abc"`),
		},
		SecretVariables: []string{"pin", "number", "list", "object"},
	}
	g.Expect(request.Secrets()).To(ConsistOf("long enough", "x", "4f2", "917", `["q7z"]`, "q7z", "k8w", "6543"))
	g.Expect(request.ShortSecrets()).To(ConsistOf("x", "4f2", "917", "q7z", "k8w", "6543"))
}
