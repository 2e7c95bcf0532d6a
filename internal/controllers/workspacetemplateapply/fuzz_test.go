package workspacetemplateapply

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/config/crd"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// statusSchema checks a status as the API server does.
var statusSchema = sync.OnceValues(func() (validation.SchemaValidator, error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	for _, definition := range definitions {
		if definition.Spec.Names.Kind != "WorkspaceTemplateApply" {
			continue
		}
		schema := &apiextensions.JSONSchemaProps{}
		status := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&status, schema, nil); err != nil {
			return nil, err
		}
		validator, _, err := validation.NewSchemaValidator(schema)
		return validator, err
	}
	panic("the CRD of workspaces is missing")
})

// checkStatus fails the test if the API server would refuse a status.
func checkStatus(t *testing.T, status *infrav1.WorkspaceTemplateApplyStatus) {
	t.Helper()
	schema, err := statusSchema()
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateCustomResource(nil, content, schema); len(errs) > 0 {
		t.Fatalf("the API server refuses the status: %v", errs.ToAggregate())
	}
	const maxSize = 1 << 20
	if text, err := json.Marshal(status); err != nil || len(text) > maxSize {
		t.Fatalf("the status has %d bytes: %v", len(text), err)
	}
}

// A module can write everything into the Secret of its run. A status that the API server
// refuses would never be written: the workspace could be neither used nor deleted.
func FuzzReport(f *testing.F) {
	long := strings.Repeat("x", 3000)
	for _, report := range []struct{ result, progress, state, operation string }{
		{`{"outcome":"Planned","plan":{"id":"plan-0123456789abcdef","add":1,"changes":[{"address":"a.b","action":"create"}]},"state":{"lineage":"l","serial":1,"resources":2}}`, `{"phase":"Applying","done":1,"total":2,"current":[{"address":"a.b","action":"create"}]}`, `{"lineage":"l","serial":1}`, "Plan"},
		{`{"outcome":"Planned","plan":{"id":"` + long + `","add":-1,"change":99999999999,"destroy":-5,"refresh":-1,"omitted":-100,"changes":[{"address":"","action":""},{"address":"` + long + `","action":"` + long + `"}]}}`, `{"phase":"` + long + `","done":-1,"total":99999999999,"current":[{"address":"","action":"` + long + `"}]}`, `{"lineage":"` + long + `","serial":18446744073709551615,"resources":-1}`, "PlanAndApply"},
		{`{"outcome":"Blocked","blocked":["","` + long + `"],"plan":{"id":""},"violations":[{"kind":"WorkspacePolicy","policy":"` + long + `","rule":"","action":"Deny","message":"m","count":-1,"resources":["","` + long + `"]}]}`, `{}`, `{}`, "Apply"},
		{`{"outcome":"Succeeded","drift":[{"address":"","action":"` + long + `"}],"startedAt":"9999-12-31T23:59:59Z","finishedAt":"0001-01-01T00:00:00Z"}`, `{}`, `{}`, "CheckDrift"},
		{`{"outcome":"Succeeded","module":{"digest":"","revision":"` + long + `","archive":"x"},"outputs":{"` + long + `":{"value":"` + long + `"},"":{"value":null}},"state":{"lineage":"` + long + `","serial":18446744073709551615,"resources":-7}}`, `{}`, `{}`, "PlanAndApply"},
		{`{"outcome":"Failed","class":"Terminal","invalidInputs":"` + long + `","diagnostics":[{"severity":"error","summary":"` + long + `"}]}`, `null`, `null`, "Destroy"},
	} {
		f.Add([]byte(report.result), []byte(report.progress), []byte(report.state), report.operation)
	}
	f.Fuzz(func(t *testing.T, result, progress, state []byte, operation string) {
		report(t, result, progress, state, operation)
	})
}

// The API server and its storage accept about a megabyte.
func TestReport_isSmallInTheStatus(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	var blocked, outputs, changes, violations []string
	for i := range 300 {
		blocked = append(blocked, fmt.Sprintf(`"%d%s"`, i, long))
		outputs = append(outputs, fmt.Sprintf(`"%d%s":{"value":1}`, i, long))
		changes = append(changes, fmt.Sprintf(`{"address":"%d%s","action":"%s"}`, i, long, long))
		violations = append(violations, fmt.Sprintf(`{"kind":"WorkspacePolicy","policy":"%d%s","rule":"r","action":"Deny","message":"%s"}`, i, long, long[:1000]))
	}
	for _, result := range []string{
		`{"outcome":"Blocked","blocked":[` + strings.Join(blocked, ",") + `],"plan":{"id":"plan-1"}}`,
		`{"outcome":"Succeeded","outputs":{` + strings.Join(outputs, ",") + `}}`,
		`{"outcome":"Planned","plan":{"id":"plan-1","changes":[` + strings.Join(changes[:250], ",") + `]}}`,
		`{"outcome":"Denied","plan":{"id":"plan-1"},"violations":[` + strings.Join(violations, ",") + `]}`,
	} {
		report(t, []byte(result), nil, nil, "PlanAndApply")
	}
}

// report records what a run reports and checks the status.
func report(t *testing.T, result, progress, state []byte, operation string) {
	t.Helper()
	s := newScope("hello")
	g := NewWithT(t)
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	run.Secret.Annotations[record.OperationAnnotation] = operation
	run.Secret.Data["progress"], run.Secret.Data["state"] = progress, state
	if reported, err := record.Progress(run.Secret); err == nil {
		s.SetRunStatus(run, reported)
	}
	s.RecordLineage(run)
	checkStatus(t, &s.Apply.Status)

	compressed, err := record.Compress(result)
	g.Expect(err).NotTo(HaveOccurred())
	run.Secret.Data["result"] = compressed
	if run.Result() == nil {
		return
	}
	ended := run.Decode(run.Secret)
	ended.Redact(terraform.NewRedactor())
	s.RecordResult(run, ended)
	s.RecordModule(run, ended)
	s.RecordState(run, ended)
	s.Apply.Status.Outputs = history.StatusOutputs(ended.Outputs)
	checkStatus(t, &s.Apply.Status)
}
